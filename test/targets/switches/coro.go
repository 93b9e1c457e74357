//go:build go1.23
// +build go1.23

package switches

import "iter"

// Kind coroutines: switches.busy <- switches.generate.func1 in the coroutine's own goroutine (its root is
// runtime.corostart), switches.busy <- switches.consume in the other.
func init() { kinds["coroutines"] = consume }

//go:noinline
func generate() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; yield(i); i++ {
			busy(some / 10)
		}
	}
}

func consume() {
	next, stop := iter.Pull(generate())
	defer stop()
	for !over() {
		next()
		busy(some / 10)
	}
}
