// Command target is the program that the bench looks at, without anything beyond the standard library (see package crowd).
// peers/ has the same with the profilers that others have written.
package main

import "example.org/goprof/bench/crowd"

func main() { crowd.Main() }
