package crowd

import (
	"math/bits"
	"sync/atomic"
)

// histogram of times in ns, with 16 steps to a power of two. Many add at once; it is read while they do.
type histogram [64 * 16]uint64

func (h *histogram) add(ns uint64) {
	k := bits.Len64(ns | 16)
	atomic.AddUint64(&h[k*16-16+int(ns>>uint(k-5)&15)], 1)
}

// since is what came in after old was taken; old becomes the state of now.
func (h *histogram) since(old *histogram) (d histogram) {
	for i := range h {
		n := atomic.LoadUint64(&h[i])
		d[i], old[i] = n-old[i], n
	}
	return
}

// quantile in us: the lower end of the step that holds it; 0 of nothing.
func (h *histogram) quantile(q float64) float64 {
	var sum, at uint64
	for _, n := range h {
		sum += n
	}
	for i, n := range h {
		if at += n; n > 0 && float64(at) >= q*float64(sum) {
			k := uint(i/16 + 1)
			return float64(uint64(16+i%16)<<(k-5)) / 1e3
		}
	}
	return 0
}
