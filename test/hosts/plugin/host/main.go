// host opens plugins, one each half second, and lets two goroutines of each wait and one spin: their functions are
// in the plugin only.
package main

import (
	"fmt"
	"os"
	"plugin"
	"time"
)

func main() {
	for i, path := range os.Args[1:] {
		if i > 0 {
			time.Sleep(1500 * time.Millisecond)
		}
		p, err := plugin.Open(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		spin, _ := p.Lookup("Spin")
		park, _ := p.Lookup("Park")
		for i := 0; i < 2; i++ {
			go park.(func())()
		}
		go spin.(func())()
		if i == 0 {
			time.Sleep(50 * time.Millisecond)
			fmt.Fprintf(os.Stderr, "READY pid=%d\n", os.Getpid())
		}
	}
	time.Sleep(time.Minute)
}
