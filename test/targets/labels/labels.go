// Package labels parks goroutines with pprof labels.
//
// Right answer: 52 goroutines in labels.park. 2*(R+1) for each of 12 route/user pairs (route=/rR user=uU, step=inner,
// half of them children that inherited it), 1 cleared, 1 with empty key, empty value, newline, quote, non-ASCII and a
// 5,000-byte value, 1 with 64 labels, 1 with a key given twice (the last one wins). $ODD_DUMP.1 shows them all.
package labels

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strings"

	"example.org/goprof/targets/oracle"
)

var c = make(chan int)

//go:noinline
func park() { <-c }

// Main is the target.
func Main() { oracle.Main(Start) }

// Start parks all of them.
func Start() {
	bg := context.Background()
	for r := 0; r < 3; r++ {
		for u := 0; u < 4; u++ {
			for i := 0; i <= r; i++ {
				go pprof.Do(bg, pprof.Labels("route", fmt.Sprint("/r", r), "user", fmt.Sprint("u", u)), func(ctx context.Context) {
					pprof.Do(ctx, pprof.Labels("step", "inner"), func(context.Context) {
						go park() // inherits route,user,step
						park()
					})
				})
			}
		}
	}
	go pprof.Do(bg, pprof.Labels("route", "gone"), func(ctx context.Context) { pprof.SetGoroutineLabels(bg); park() })
	go pprof.Do(bg, pprof.Labels("", "empty-key", "empty-value", "", "nl", "a\nb", "quote", `"x"`, "utf8", "ü", "long", strings.Repeat("x", 5000)), func(context.Context) { park() })
	var many []string
	for i := 0; i < 64; i++ {
		many = append(many, fmt.Sprintf("k%02d", i), fmt.Sprint(i))
	}
	go pprof.Do(bg, pprof.Labels(many...), func(context.Context) { park() })
	go pprof.Do(bg, pprof.Labels("dup", "first", "dup", "last"), func(context.Context) { park() })
	fmt.Println("TRUTH route=/rR user=uU step=inner: 2*(R+1) goroutines each (R=0..2, U=0..3: 48 in all); 1 cleared; 1 odd; 1 with 64 labels; 1 dup (see $ODD_DUMP.1)")
}
