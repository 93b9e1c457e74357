// p is a plugin. It is built twice, under two package paths.
package main

import "time"

var sink uint64

//go:noinline
func work(until time.Time) {
	for n := uint64(1); ; n++ {
		sink = sink*6364136223846793005 + n
		if n%(1<<16) == 0 && time.Now().After(until) {
			return
		}
	}
}

func Spin() { work(time.Now().Add(time.Minute)) }

func Park() { <-make(chan int) }
