package main

import (
	"math"
	"sort"
)

// spread is the median of some figures, with the range in which the median of all possible ones lies (95 %). That range is
// one of order statistics: it takes no shape of the noise for granted. Below six figures there is none, and low and high are
// the smallest and the largest.
type spread struct {
	Median, Low, High float64
	N                 int
	Certain           bool // Low and High are the 95 % interval
}

func (s spread) halfWidth() float64 { return (s.High - s.Low) / 2 }

func sorted(v []float64) []float64 {
	s := append([]float64(nil), v...)
	sort.Float64s(s)
	return s
}

// quantile by linear interpolation; NaN of nothing.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := sorted(v)
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

func median(v []float64) float64 { return quantile(v, 0.5) }

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return
}

// medianRank is the largest k for which the k-th smallest and the k-th largest of n enclose the median in 95 % of cases; 0
// when none does. Each figure lies below the median with probability 1/2, so their number is binomial.
func medianRank(n int) int {
	below, p := 0.0, math.Pow(0.5, float64(n)) // p: exactly i of them lie below
	for i := 0; i < n; i++ {
		if below += p; 2*below > 0.05 {
			return i
		}
		p *= float64(n-i) / float64(i+1)
	}
	return 0
}

func spreadOf(v []float64) spread {
	s, n := sorted(v), len(v)
	if n == 0 {
		return spread{}
	}
	if k := medianRank(n); k > 0 {
		return spread{median(s), s[k-1], s[n-k], n, true}
	}
	return spread{median(s), s[0], s[n-1], n, false}
}
