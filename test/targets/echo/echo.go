// Package echo is a TCP server on 127.0.0.1 with 200 idle connections and a busy one; the clients live in the same process.
//
// Right answer: 201 goroutines in echo.serve, all in IO wait but the busy one, echo.acceptLoop in IO wait, one echo.busyClient.
package echo

import (
	"flag"
	"fmt"
	"io"
	"net"
	"time"

	"example.org/goprof/targets/oracle"
)

const idle = 200

// keep holds the idle connections: one that nobody refers to is closed by the collector.
var keep []net.Conn

func serve(c net.Conn) { io.Copy(c, c) }

func acceptLoop(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go serve(c)
	}
}

func busyClient(a string) {
	c, _ := net.Dial("tcp", a)
	b := make([]byte, 1<<16)
	for {
		c.Write(b)
		io.ReadFull(c, b)
	}
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", oracle.Long, "run time")
	flag.Parse()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go acceptLoop(l)
	for i := 0; i < idle; i++ {
		c, _ := net.Dial("tcp", l.Addr().String())
		keep = append(keep, c)
	}
	go busyClient(l.Addr().String())
	time.Sleep(300 * time.Millisecond)
	fmt.Printf("TRUTH echo.serve=%d (IO wait, one busy) echo.acceptLoop=1 (IO wait) echo.busyClient=1\n", idle+1)
	oracle.Start()
	oracle.Park(*dur)
}
