//go:build go1.18
// +build go1.18

// Package generics parks goroutines in instantiated functions and methods (Go 1.18 and newer).
//
// Right answer: 8 goroutines in generics.park. pclntab holds full names with go.shape types, brackets, dots and
// slashes; the runtime's dump prints [...] for the brackets.
package generics

import (
	"fmt"
	"io"
	"net/http"

	"example.org/goprof/targets/oracle"
)

var c = make(chan int)

//go:noinline
func park() { <-c }

type Num interface{ ~int | ~float64 }
type Pair[K comparable, V any] struct {
	k K
	v V
}

//go:noinline
func (p Pair[K, V]) Hold() { park(); fmt.Fprint(io.Discard, p) }

//go:noinline
func (p *Pair[K, V]) HoldPtr() { park(); fmt.Fprint(io.Discard, p) }

//go:noinline
func Sum[T Num](x []T) (s T) {
	for _, v := range x {
		s += v
	}
	park()
	return
}

//go:noinline
func Each[T any](x []T, f func(T)) {
	for _, v := range x {
		f(v)
	}
}

func Outer[T any](v T) func() {
	return func() { park(); fmt.Fprint(io.Discard, v) }
}

type List[T any] struct {
	next *List[T]
	v    T
}

func (l *List[T]) Walk(f func(T)) {
	if l.next != nil {
		l.next.Walk(f)
	}
	f(l.v)
}

// Main is the target.
func Main() { oracle.Main(Start) }

// Start parks all of them.
func Start() {
	forms := []func(){
		func() { Sum([]int{1}) }, func() { Sum([]float64{1}) },
		Pair[string, int]{}.Hold, (&Pair[int, map[string][]http.Header]{}).HoldPtr,
		func() { Each([]string{"a"}, func(string) { park() }) },
		Outer(struct{ A, B int }{1, 2}), Outer[error](nil),
		func() { (&List[int]{&List[int]{nil, 1}, 2}).Walk(func(int) { park() }) },
	}
	for _, f := range forms {
		go f()
	}
	fmt.Printf("TRUTH %d goroutines in generics.park\n", len(forms))
}
