// Package server is a small HTTP shop under load from clients in the same process: the program for demonstrations.
//
// Right answer (TRUTH line: requests and time by route): the CPU goes to server.handleOrder -> server.(*store).put ->
// server.seal -> crypto/sha256, and to server.handleSearch -> server.(*store).find; server.handleHealth costs next to
// nothing. Every handler runs with the label route=/order, /search or /health, set by server.labelled. Besides there are
// -workers goroutines parked in server.(*pool).worker (chan receive) and one in server.(*pool).janitor (select).
package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"io/ioutil"
	"net"
	"net/http"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.org/goprof/targets/oracle"
)

// --- the shop ---

type order struct {
	id   string
	text string
}

// store keeps the last orders, sealed with a checksum.
type store struct {
	mu     sync.Mutex
	rounds int
	orders []order
	next   int
}

//go:noinline
func seal(text []byte, rounds int) string {
	sum := sha256.Sum256(text)
	for i := 0; i < rounds; i++ {
		sum = sha256.Sum256(append(sum[:], text...))
	}
	return hex.EncodeToString(sum[:])
}

//go:noinline
func (s *store) put(text []byte) string {
	id := seal(text, s.rounds)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders[s.next%len(s.orders)] = order{id, string(text)}
	s.next++
	return id
}

//go:noinline
func (s *store) find(word string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		if strings.Contains(o.text, word) {
			n++
		}
	}
	return
}

type shop struct {
	store *store
	pool  *pool
}

func (s *shop) handleOrder(w http.ResponseWriter, r *http.Request) {
	text, err := ioutil.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintln(w, s.store.put(text))
}

func (s *shop) handleSearch(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, s.store.find(r.URL.Query().Get("q")))
}

func (s *shop) handleHealth(w http.ResponseWriter, r *http.Request) {
	select {
	case s.pool.jobs <- struct{}{}: // wakes a worker now and then
	default:
	}
	io.WriteString(w, "ok\n")
}

// pool is the background of a real server: many that wait, few that work.
type pool struct {
	jobs chan struct{}
	done int64
}

//go:noinline
func (p *pool) worker() {
	for range p.jobs {
		atomic.AddInt64(&p.done, 1)
	}
}

//go:noinline
func (p *pool) janitor() {
	tick := time.NewTicker(time.Second)
	never := make(chan int)
	for {
		select {
		case <-tick.C:
		case <-never:
		}
	}
}

// --- routes ---

// route counts what its handler did.
type route struct {
	path         string
	requests, ns int64
}

// labelled runs a handler with its route as label, and counts.
func labelled(rt *route, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		pprof.Do(r.Context(), pprof.Labels("route", rt.path), func(ctx context.Context) {
			t := time.Now()
			h(w, r.WithContext(ctx))
			atomic.AddInt64(&rt.ns, int64(time.Since(t)))
			atomic.AddInt64(&rt.requests, 1)
		})
	}
}

// --- clients ---

//go:noinline
func client(base string, r oracle.Rand, pause time.Duration, bad *int64) {
	text := make([]byte, 2048)
	for {
		var resp *http.Response
		var err error
		switch p := r.Float(); {
		case p < 0.5:
			for i := range text {
				text[i] = 'a' + byte(r.Next()%26)
			}
			resp, err = http.Post(base+"/order", "text/plain", bytes.NewReader(text))
		case p < 0.8:
			resp, err = http.Get(base + "/search?q=zebra")
		default:
			resp, err = http.Get(base + "/health")
		}
		if err != nil || resp.StatusCode != 200 {
			atomic.AddInt64(bad, 1)
		}
		if err == nil {
			io.Copy(ioutil.Discard, resp.Body)
			resp.Body.Close()
		}
		time.Sleep(time.Duration(r.Vary(float64(pause), 0.8)))
	}
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 30*time.Second, "run time")
	addr := flag.String("addr", "127.0.0.1:0", "address to listen on")
	clients := flag.Int("clients", 8, "clients in this process (0: none)")
	pause := flag.Duration("pause", 10*time.Millisecond, "mean pause between a client's requests")
	workers := flag.Int("workers", 100, "parked workers")
	rounds := flag.Int("rounds", 200, "rounds of sha256 for an order")
	seed := flag.Uint64("seed", 1, "seed of the load")
	flag.Parse()

	p := &pool{jobs: make(chan struct{})}
	for i := 0; i < *workers; i++ {
		go p.worker()
	}
	go p.janitor()
	s := &shop{&store{rounds: *rounds, orders: make([]order, 1000)}, p}
	routes := []*route{{path: "/order"}, {path: "/search"}, {path: "/health"}}
	mux := http.NewServeMux()
	for i, h := range []http.HandlerFunc{s.handleOrder, s.handleSearch, s.handleHealth} {
		mux.HandleFunc(routes[i].path, labelled(routes[i], h))
	}
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
	go http.Serve(l, mux)

	var bad int64
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = *clients
	for i := 0; i < *clients; i++ {
		go client("http://"+l.Addr().String(), oracle.Rand(*seed*1000+uint64(i)), *pause, &bad)
	}
	fmt.Printf("TRUTH listening on %s\n", l.Addr())
	oracle.Start()
	time.Sleep(*dur)
	fmt.Print("TRUTH")
	for _, rt := range routes {
		fmt.Printf(" %s: requests=%d wall_ms=%.0f;", rt.path, atomic.LoadInt64(&rt.requests), float64(atomic.LoadInt64(&rt.ns))/1e6)
	}
	fmt.Printf(" bad=%d (must be 0) jobs=%d process_ms=%.0f\n", atomic.LoadInt64(&bad), atomic.LoadInt64(&p.done), float64(oracle.ProcessCPU())/1e6)
}
