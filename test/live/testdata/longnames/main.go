// longnames: a generic function whose type argument is a struct of fifty fields, some with names outside of ASCII: its
// full name has kilobytes. One goroutine spins in it, one is parked.
package main

import (
	"fmt"
	"os"
)

type wide struct {
	Field00, Größe01, Field02, 長さ03, Field04, Field05, Field06, Field07, Field08, Field09 map[string][]func(int, ...string) error
	Field10, Größe11, Field12, 長さ13, Field14, Field15, Field16, Field17, Field18, Field19 map[[4]uint16]chan<- *struct{ Inner any }
	Field20, Größe21, Field22, 長さ23, Field24, Field25, Field26, Field27, Field28, Field29 []interface{ Method(int) string }
	Field30, Größe31, Field32, 長さ33, Field34, Field35, Field36, Field37, Field38, Field39 func(a, b int32) (c chan int, d []byte)
	Field40, Größe41, Field42, 長さ43, Field44, Field45, Field46, Field47, Field48, Field49 [3]complex128
}

type box[T any] struct {
	value T
	n     uint64
}

//go:noinline
func (b *box[T]) park(c chan T) { b.value = <-c }

//go:noinline
func (b *box[T]) spin(until uint64) T {
	for b.n < until {
		b.n++
	}
	return b.value
}

func main() {
	var b box[wide]
	go b.park(make(chan wide))
	fmt.Fprintf(os.Stderr, "READY pid=%d\n", os.Getpid())
	b.spin(1 << 62)
}
