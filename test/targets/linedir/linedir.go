// Package linedir has //line directives.
//
// Right answer: the lines of the TRUTH line (and of the dump): a relative file, a path with a blank, non-ASCII, line
// 16,777,000, a backslash, an inlined call between two directive files.
package linedir

import (
	"flag"
	"fmt"
	"time"

	"example.org/goprof/targets/oracle"
)

var c = make(chan int)

// Main is the target.
func Main() {
	dur := flag.Duration("dur", oracle.Long, "run time")
	flag.Parse()
	for _, f := range []func(){a, b, d, e, g} {
		go f()
	}
	time.Sleep(200 * time.Millisecond)
	fmt.Println("TRUTH a gram.y:100 | b /abs/gen file.tmpl:7 | d häh/ü.go:16777000 | e win\\path.go:1 | g out.go:5 (inlined from in.go:9)")
	oracle.Start()
	oracle.Park(*dur)
}

//line gram.y:100
func a() { <-c }

//line /abs/gen file.tmpl:7
func b() { <-c }

//line häh/ü.go:16777000
func d() { <-c }

//line win\path.go:1
func e() { <-c }

//line in.go:9
func small() { <-c; oracle.Sink++ }

//line out.go:5
func g() { small(); oracle.Sink++ }
