//go:build go1.24
// +build go1.24

package switches

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Kind cleanups: switches.busy <- switches.cleanup, in a goroutine of the runtime's (Go 1.24 and newer).
func init() { kinds["cleanups"] = cleanups }

func cleanup(int) { busy(some); atomic.AddInt64(&finalized, 1) }

func cleanups() {
	for !over() {
		for i := 0; i < 100; i++ {
			runtime.AddCleanup(new([99]byte), cleanup, i)
		}
		runtime.GC()
		time.Sleep(5 * time.Millisecond)
	}
}
