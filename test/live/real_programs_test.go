// Programs as they are shipped (scripts/real-programs): how each is started, when it is ready, and what it is given
// to do. Nothing of them leaves this machine.
package live

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// place is where one process of a real program lives: a directory and ports of its own.
type place struct {
	t    testing.TB
	dir  string
	port [2]int
}

func (p *place) url(path string) string { return fmt.Sprintf("http://127.0.0.1:%d%s", p.port[0], path) }
func (p *place) address() string        { return fmt.Sprintf("127.0.0.1:%d", p.port[0]) }

func (p *place) write(name, text string) string {
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func newPlace(t testing.TB) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir()}
	for i := range p.port {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		p.port[i] = l.Addr().(*net.TCPAddr).Port
	}
	return p
}

// realProgram is a row: what one program is good for.
type realProgram struct {
	name   string
	args   func(p *place) []string // words of its command line
	before func(p *place) []option // what must be there first
	served bool                    // it is ready when its port answers; else after a moment
	work   func(p *place) error    // one piece of work, done again and again while it is recorded
	busy   bool                    // it has a core to itself even without work
	deadly syscall.Signal          // makes it die with a traceback, when it is not SIGQUIT
	least  int                     // parked goroutines that must have been compared
}

func words(v ...string) func(*place) []string { return func(*place) []string { return v } }

var esbuildArgs = func(p *place) []string {
	return []string{"app.js", "--bundle", "--outdir=" + filepath.Join(p.dir, "out"), "--serve=" + p.address()}
}

var realPrograms = []realProgram{
	{name: "etcd", served: true, least: 30, work: etcdWork, args: func(p *place) []string {
		client, peer := "http://"+p.address(), fmt.Sprintf("http://127.0.0.1:%d", p.port[1])
		return []string{"--data-dir", p.dir, "--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer}
	}},
	{name: "prometheus", served: true, least: 20, work: prometheusWork, args: prometheusArgs},
	{name: "caddy", served: true, least: 3, deadly: syscall.SIGSEGV, work: get("/index.html"), args: func(p *place) []string {
		p.write("www/index.html", strings.Repeat("<p>one of many lines\n", 5000))
		return []string{"file-server", "--listen", p.address(), "--root", filepath.Join(p.dir, "www")}
	}},
	{name: "nats-server", served: true, least: 5, work: natsWork, args: func(p *place) []string {
		return []string{"-a", "127.0.0.1", "-p", fmt.Sprint(p.port[0])}
	}},
	{name: "dockerd", least: 4, before: ownMounts, args: func(p *place) []string {
		return []string{"--data-root", p.dir + "/data", "--exec-root", p.dir + "/exec", "--pidfile", p.dir + "/pid",
			"--host", "unix://" + p.dir + "/socket", "--config-file", p.write("daemon.json", "{}"), "--containerd", p.dir + "/containerd",
			"--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false", "--storage-driver=vfs", "--userland-proxy=false"}
	}},
	{name: "age", busy: true, least: 0, args: func(p *place) []string { return []string{"-r", sshRecipient(), "-o", "/dev/null", "/dev/zero"} }},
	{name: "micro", least: 3, before: onScreen, deadly: syscall.SIGSEGV, args: func(p *place) []string {
		return []string{"-config-dir", p.dir, p.write("text", "a line\n")}
	}},
	{name: "gojq", busy: true, least: 0, args: words("-n", "last(range(1e12))")},
	{name: "gopls", served: true, least: 2, args: func(p *place) []string { return []string{"-listen=" + p.address(), "serve"} }},
	{name: "restic", busy: true, least: 5, before: resticRepository, args: func(p *place) []string {
		return []string{"-r", p.dir + "/repository", "--no-cache", "backup", "--stdin"}
	}},
	{name: "gofmt", busy: true, least: 1, args: func(p *place) []string {
		src, err := filepath.EvalSymlinks(filepath.Join(goroot(p.t, "1.26"), "src"))
		if err != nil {
			p.t.Fatal(err)
		}
		return []string{"-l", src, src, src, src}
	}},
	{name: "esbuild-0.8", served: true, least: 3, before: bundle, work: get("/app.js"), args: esbuildArgs},
	{name: "esbuild-0.11", served: true, least: 3, before: bundle, work: get("/app.js"), args: esbuildArgs},
	{name: "esbuild-0.13", served: true, least: 3, before: bundle, work: get("/app.js"), args: esbuildArgs},
	{name: "esbuild-0.14", served: true, least: 3, before: bundle, work: get("/app.js"), args: esbuildArgs},
	{name: "esbuild-0.17", served: true, least: 3, before: bundle, work: get("/app.js"), args: esbuildArgs},
	{name: "esbuild-0.19", served: true, least: 3, before: bundle, work: get("/app.js"), args: esbuildArgs},
	{name: "esbuild-0.24", served: true, least: 3, before: bundle, work: get("/app.js"), args: esbuildArgs},
	{name: "esbuild-0.28", served: true, least: 3, before: bundle, work: get("/app.js"), args: esbuildArgs},
	{name: "turbo", least: 3, deadly: syscall.SIGSEGV, before: gitRepository, args: words("daemon")},
	{name: "dbmate", least: 1, args: func(p *place) []string {
		return []string{"--url", "postgres://" + p.address() + "/none", "--wait-timeout", "2m", "wait"}
	}},
	{name: "lefthook", least: 3, before: gitRepository, args: words("run", "slow")},
	{name: "buf", least: 3, before: openPipe, args: words("lsp", "serve")},
}

// shortPrograms are those of a -short run: a cgo server whose text does not begin at .text, a PIE, one without build
// information, and a table of 130,000 functions.
var shortPrograms = []string{"caddy", "age", "esbuild-0.28", "prometheus"}

// start starts the program; it is ready when this returns.
func (r *realProgram) start(t testing.TB, path string, options ...option) (*process, *place) {
	t.Helper()
	p := newPlace(t)
	options = append(options, workdir(p.dir), env("HOME="+p.dir, "XDG_CONFIG_HOME="+p.dir, "XDG_DATA_HOME="+p.dir, "XDG_CACHE_HOME="+p.dir,
		"XDG_RUNTIME_DIR="+p.dir, "TMPDIR="+p.dir, "RESTIC_PASSWORD=none", "DO_NOT_TRACK=1", "TURBO_TELEMETRY_DISABLED=1"))
	p.write("executable", path)
	if r.before != nil {
		options = append(options, r.before(p)...)
	}
	g := start(t, options, path, r.args(p)...)
	if r.served {
		eventually(t, 30*time.Second, r.name+" answers", func() bool {
			c, err := net.Dial("tcp4", p.address())
			if err == nil {
				c.Close()
			}
			if g.ended() {
				t.Fatalf("%v ended with status %d:\n%s%s", g.Args, statusOf(g.ProcessState), tail(g.out()), tail(g.err()))
			}
			return err == nil
		})
	}
	time.Sleep(time.Second)
	if g.ended() {
		t.Fatalf("%v ended with status %d:\n%s%s", g.Args, statusOf(g.ProcessState), tail(g.out()), tail(g.err()))
	}
	return g, p
}

// atWork does pieces of work, two at a time, until the returned function is called; that tells how many were done.
func (r *realProgram) atWork(p *place) (stop func() int) {
	done, pieces := make(chan struct{}), make([]int, 2)
	var all sync.WaitGroup
	for i := 0; i < len(pieces) && r.work != nil; i++ {
		i := i
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
				}
				if err := r.work(p); err != nil {
					p.t.Errorf("%s does not work: %v", r.name, err)
					return
				}
				pieces[i]++
			}
		}()
	}
	return func() int {
		close(done)
		all.Wait()
		client.CloseIdleConnections()
		return pieces[0] + pieces[1]
	}
}

var client = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 4}}

func request(method, url, body string) error {
	q, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := client.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s, %v: %.200s", url, answer.Status, err, text)
	}
	return nil
}

func get(path string) func(*place) error {
	return func(p *place) error { return request("GET", p.url(path), "") }
}

func etcdWork(p *place) error {
	return request("POST", p.url("/v3/kv/put"), `{"key": "a2V5", "value": "dmFsdWU="}`)
}

func prometheusArgs(p *place) []string {
	config := p.write("prometheus.yml", fmt.Sprintf("scrape_configs:\n- job_name: itself\n  scrape_interval: 500ms\n"+
		"  static_configs:\n  - targets: ['%s']\n", p.address()))
	return []string{"--config.file", config, "--storage.tsdb.path", filepath.Join(p.dir, "data"), "--web.listen-address", p.address()}
}

func prometheusWork(p *place) error {
	return request("GET", p.url("/api/v1/query?query=sum(rate(go_gc_duration_seconds_count[1m]))"), "")
}

func natsWork(p *place) error {
	c, err := net.Dial("tcp4", p.address())
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte("CONNECT {\"verbose\":false}\r\n" + strings.Repeat("PUB subject 5\r\nhello\r\n", 100) + "PING\r\n")); err != nil {
		return err
	}
	var said []byte
	for buf := make([]byte, 4096); !bytes.Contains(said, []byte("PONG")); {
		n, err := c.Read(buf)
		if err != nil {
			return fmt.Errorf("%v after %q", err, said)
		}
		said = append(said, buf[:n]...)
	}
	return nil
}

// sshRecipient is a new key as the one line that ssh keeps in a file: what age accepts without a key file.
func sshRecipient() string {
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	var b []byte
	for _, part := range [][]byte{[]byte("ssh-ed25519"), public} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	return "ssh-ed25519 " + base64.StdEncoding.EncodeToString(b)
}

// --- what must be there first ---

func ownMounts(*place) []option {
	return []option{attr(func(a *syscall.SysProcAttr) { a.Unshareflags = syscall.CLONE_NEWNS })}
}

// onScreen gives the program a terminal of its own that someone reads.
func onScreen(p *place) []option {
	typist, tty := terminal(p.t)
	go io.Copy(io.Discard, typist)
	return []option{onTerminal(tty), stdout(tty), env("TERM=xterm")}
}

// openPipe is a stdin on which nothing comes, and no end.
func openPipe(p *place) []option {
	r, w, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { r.Close(); w.Close() })
	return []option{stdin(r)}
}

func zeros(p *place) *os.File {
	f, err := os.Open("/dev/zero")
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { f.Close() })
	return f
}

func resticRepository(p *place) []option {
	path, _ := os.ReadFile(filepath.Join(p.dir, "executable"))
	g := start(p.t, []option{env("HOME="+p.dir, "RESTIC_PASSWORD=none")}, string(path), "-r", filepath.Join(p.dir, "repository"), "--no-cache", "init")
	if status := g.wait(30 * time.Second); status != 0 {
		p.t.Fatalf("restic init: status %d\n%s", status, g.err())
	}
	return []option{stdin(zeros(p))}
}

// bundle writes a program in many modules for esbuild.
func bundle(p *place) []option {
	var app strings.Builder
	for i := 0; i < 100; i++ {
		fmt.Fprintf(&app, "import {f%d} from './m%d.js'\nconsole.log(f%d(%d))\n", i, i, i, i)
		p.write(fmt.Sprintf("m%d.js", i), fmt.Sprintf("export function f%d(x) {\n%s\treturn x\n}\n", i, strings.Repeat("\tfor (let i = 0; i < 3; i++) x = [...x, {a: x?.y ?? i}]\n", 50)))
	}
	p.write("app.js", app.String())
	return openPipe(p)
}

// gitRepository is one with a slow hook for lefthook and an empty project for turbo.
func gitRepository(p *place) []option {
	if text, err := exec.Command("git", "init", "-q", p.dir).CombinedOutput(); err != nil {
		p.t.Skipf("git init: %v: %s", err, text)
	}
	p.write("lefthook.yml", "slow:\n  commands:\n    wait:\n      run: sleep 60\n")
	p.write("package.json", `{"name": "none", "packageManager": "npm@9.0.0", "workspaces": []}`)
	p.write("package-lock.json", `{"lockfileVersion": 2, "packages": {}}`)
	p.write("turbo.json", `{"pipeline": {}}`)
	return nil
}
