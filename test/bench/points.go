package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

// point is one T line of the target: what it had done by then, and the latencies since the line before.
type point struct {
	at       time.Time
	ops      int64
	p50, p99 float64 // us; echo only
}

// readPoints reads the target's T lines. Others (TRUTH, half a line at the end) are not for us.
func readPoints(path string) (v []point, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var p point
		var ns int64
		if n, _ := fmt.Sscanf(s.Text(), "T %d %d %f %f", &ns, &p.ops, &p.p50, &p.p99); n != 2 && n != 4 {
			continue
		}
		p.at = time.Unix(0, ns)
		if n := len(v); n > 0 && (!p.at.After(v[n-1].at) || p.ops < v[n-1].ops) {
			return nil, fmt.Errorf("%s: time or operations run backwards at %d", path, ns)
		}
		v = append(v, p)
	}
	return v, nil
}

// Fewer points than this are no measurement.
const leastPoints = 5

// speed is what happened between two times.
type speed struct {
	rate     float64   // operations per second
	p50, p99 []float64 // of each 100 ms
}

// speedBetween takes the points that lie within [begin, end], less an edge of 100 ms on both sides.
func speedBetween(v []point, begin, end time.Time) (s speed, err error) {
	begin, end = begin.Add(edge), end.Add(-edge)
	first, last, n := 0, 0, 0
	for i, p := range v {
		if p.at.Before(begin) || p.at.After(end) {
			continue
		}
		if n == 0 {
			first = i
		} else { // its latencies began at the point before
			s.p50, s.p99 = append(s.p50, p.p50), append(s.p99, p.p99)
		}
		last = i
		n++
	}
	if n < leastPoints {
		return s, fmt.Errorf("only %d of the target's lines in a window of %.1f s", n, end.Sub(begin).Seconds()+2*edge.Seconds())
	}
	s.rate = float64(v[last].ops-v[first].ops) / v[last].at.Sub(v[first].at).Seconds()
	if s.rate <= 0 {
		return s, fmt.Errorf("the target did nothing for %.1f s", v[last].at.Sub(v[first].at).Seconds())
	}
	return s, nil
}
