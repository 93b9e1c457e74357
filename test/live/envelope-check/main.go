// envelope-check tells whether Sentry would take the envelopes in the files that it is given.
//
//	go run ./envelope-check FILE...     exit status 1: one of them would not be taken or shown right
package main

import (
	"fmt"
	"os"

	"example.org/goprof/live/envelope"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: envelope-check FILE...")
		os.Exit(2)
	}
	status := 0
	for _, name := range os.Args[1:] {
		data, err := os.ReadFile(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "envelope-check:", err)
			os.Exit(2)
		}
		problems := envelope.Check(data)
		for _, p := range problems {
			fmt.Printf("%s: %v\n", name, p)
		}
		if envelope.Bad(problems) {
			status = 1
		} else {
			fmt.Printf("%s: accepted, %d bytes\n", name, len(data))
		}
	}
	os.Exit(status)
}
