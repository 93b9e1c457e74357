// The service: what goes over the wire, what is said before, and what stays here when it is not taken.
package live

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/goprof/live/envelope"
)

// service stands for Sentry: it keeps what it is sent and answers as it is told.
type service struct {
	*httptest.Server
	status int
	delay  time.Duration

	lock   sync.Mutex
	bodies [][]byte
	bad    []string
}

func newService(t testing.TB, status int) *service {
	s := &service{status: status}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *service) dsn() string { return strings.Replace(s.URL, "http://", "http://public@", 1) + "/42" }

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.lock.Lock()
	defer s.lock.Unlock()
	time.Sleep(s.delay)
	if r.Method != "POST" || r.URL.Path != "/api/42/envelope/" {
		s.bad = append(s.bad, r.Method+" "+r.URL.Path)
	}
	if auth := r.Header.Get("X-Sentry-Auth"); !strings.Contains(auth, "sentry_key=public") || !strings.Contains(auth, "sentry_version=7") {
		s.bad = append(s.bad, "X-Sentry-Auth: "+auth)
	}
	body, err := gzip.NewReader(r.Body)
	if err != nil {
		s.bad = append(s.bad, err.Error())
		return
	}
	data, err := io.ReadAll(body)
	if err != nil {
		s.bad = append(s.bad, err.Error())
	}
	s.bodies = append(s.bodies, data)
	w.WriteHeader(s.status)
	io.WriteString(w, `{"id":"0"}`)
}

// taken gives what was sent, after checks that hold for all of it.
func (s *service) taken(t testing.TB) [][]byte {
	t.Helper()
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, b := range s.bad {
		t.Errorf("the service was asked: %s", b)
	}
	for _, body := range s.bodies {
		for _, p := range envelope.Check(body) {
			t.Errorf("an envelope that was sent: %v", p)
		}
	}
	return s.bodies
}

// profiled runs a short program in a directory of its own, without any -o.
func profiled(t testing.TB, options ...string) (r *process, dir string) {
	t.Helper()
	dir = t.TempDir()
	words := append(append([]string{"run"}, options...), target("1.26-sw"), "busy", "-n", "1", "-dur", "500ms")
	r = start(t, []option{workdir(dir)}, goprofPath, words...)
	if status := r.wait(40 * time.Second); status != 0 {
		t.Fatalf("status %d\n%s", status, tail(r.err()))
	}
	return
}

func files(t testing.TB, dir, pattern string) []string {
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Shows: with a DSN the window is sent, valid, and no file is written; the host and the project are named first, the
// key never.
func TestSent(t *testing.T) {
	t.Parallel()
	s := newService(t, 200)
	r, dir := profiled(t, "--dsn", s.dsn())
	if n := len(s.taken(t)); n != 1 {
		t.Errorf("%d envelopes were sent", n)
	}
	said := unbroken(r.err())
	if !strings.HasPrefix(said, "goprof: profiles of ") || !strings.Contains(said, "project 42") {
		t.Errorf("not said first where the profile goes:\n%s", tail(said))
	}
	if !strings.Contains(said, "1 window") || strings.Contains(said, "public@") {
		t.Errorf("the end does not tell what was sent, or tells the key:\n%s", tail(said))
	}
	if left := files(t, dir, "*"); len(left) != 0 {
		t.Errorf("files beside: %v", left)
	}
}

// Shows: what the service does not take is kept, whole and valid, and its answer is told; the program's status stays.
func TestNotTaken(t *testing.T) {
	t.Parallel()
	s := newService(t, 403)
	r, dir := profiled(t, "--dsn", s.dsn())
	if n := len(s.taken(t)); n != 1 {
		t.Errorf("%d envelopes were sent", n)
	}
	kept := files(t, dir, "*.envelope")
	if len(kept) != 1 {
		t.Fatalf("kept are %v\n%s", kept, tail(r.err()))
	}
	checkEnvelope(t, kept[0])
	if said := r.err(); !strings.Contains(said, "403") || !strings.Contains(said, filepath.Base(kept[0])) {
		t.Errorf("not told what the service said and where the file is:\n%s", tail(said))
	}
}

// Shows: --no-dsn keeps everything here although the environment names a service.
func TestNoDSN(t *testing.T) {
	t.Parallel()
	s := newService(t, 200)
	dir := t.TempDir()
	r := start(t, []option{workdir(dir), env("SENTRY_DSN=" + s.dsn())}, goprofPath, "run", "--no-dsn", target("1.26-sw"), "busy", "-n", "1", "-dur", "1500ms") // two ticks at least, on any machine
	if status := r.wait(20 * time.Second); status != 0 {
		t.Fatalf("status %d\n%s", status, tail(r.err()))
	}
	if n := len(s.taken(t)); n != 0 {
		t.Errorf("%d envelopes were sent", n)
	}
	if len(files(t, dir, "*.envelope")) != 1 || len(files(t, dir, "*.pb.gz")) != 1 {
		t.Errorf("files: %v", files(t, dir, "*"))
	}
}

// Shows: Ctrl-C that ends the program does not drop the profile, however slowly the service takes it.
func TestInterruptedAndSlow(t *testing.T) {
	t.Parallel()
	s := newService(t, 200)
	s.delay = time.Second
	r := start(t, nil, goprofPath, "run", "--dsn", s.dsn(), target("1.26-sw"), "busy", "-n", "1", "-dur", "20s")
	r.ready()
	time.Sleep(time.Second)
	r.signal(2) // from no terminal: goprof hands it on, and it ends the program
	if status := r.wait(20 * time.Second); status != 128+2 {
		t.Errorf("status %d\n%s", status, tail(r.err()))
	}
	if n := len(s.taken(t)); n != 1 {
		t.Errorf("%d envelopes were sent\n%s", n, tail(r.err()))
	}
}
