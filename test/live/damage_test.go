// Copies of a good program, each with one damage: to the file, to its headers, to the tables that goprof reads.
package live

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"
)

// image is the bytes of a program and where the things are that can be damaged.
type image struct {
	b                       []byte
	f                       *elf.File
	pclntab, moduledata     uint64 // file offsets
	buildinfo, waitReasons  uint64
	nfunc, names, cu, files uint64 // file offsets of the tables
	pctab, functab          uint64
	new                     bool // Go 1.20 and later: records of 44 bytes
}

func (m *image) u64(at uint64) uint64      { return binary.LittleEndian.Uint64(m.b[at:]) }
func (m *image) put64(at, v uint64)        { binary.LittleEndian.PutUint64(m.b[at:], v) }
func (m *image) put32(at uint64, v uint32) { binary.LittleEndian.PutUint32(m.b[at:], v) }
func (m *image) put16(at uint64, v uint16) { binary.LittleEndian.PutUint16(m.b[at:], v) }
func (m *image) u32(at uint64) uint32      { return binary.LittleEndian.Uint32(m.b[at:]) }
func (m *image) fill(at, n uint64, v byte) { copy(m.b[at:at+n], bytes.Repeat([]byte{v}, int(n))) }
func (m *image) phdr(i int) uint64         { return m.u64(32) + uint64(i)*56 }
func (m *image) shdr(name string) (at uint64) {
	for i, s := range m.f.Sections {
		if s.Name == name {
			return m.u64(40) + uint64(i)*64
		}
	}
	return 0
}

// offset is where an address stands in the file.
func (m *image) offset(t testing.TB, addr uint64) uint64 {
	for _, p := range m.f.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			return p.Off + addr - p.Vaddr
		}
	}
	t.Fatalf("%#x is not in the file", addr)
	return 0
}

func (m *image) symbol(t testing.TB, name string) uint64 {
	symbols, _ := m.f.Symbols()
	for _, s := range symbols {
		if s.Name == name {
			return m.offset(t, s.Value)
		}
	}
	t.Fatalf("no symbol %s", name)
	return 0
}

func openImage(t testing.TB, path string) *image {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	m := &image{b: b, f: f, new: !strings.Contains(path, "1.19")}
	m.moduledata = m.symbol(t, "runtime.firstmoduledata")
	m.waitReasons = m.symbol(t, "runtime.waitReasonStrings")
	m.pclntab = m.offset(t, m.u64(m.moduledata))
	m.buildinfo = f.Section(".go.buildinfo").Offset
	m.nfunc = m.u64(m.pclntab + 8)
	for i, p := range []*uint64{&m.names, &m.cu, &m.files, &m.pctab, &m.functab} {
		*p = m.pclntab + m.u64(m.pclntab+32+8*uint64(i))
	}
	return m
}

// records calls f with the file offset of each function record.
func (m *image) records(f func(at uint64)) {
	for i := uint64(0); i < m.nfunc; i++ {
		f(m.functab + uint64(m.u32(m.functab+8*i+4)))
	}
}

// Where the members of moduledata stand, in words; the same from 1.16 to 1.27.
const (
	mdNames, mdFtab, mdMinpc, mdText, mdEtext = 8, 128, 160, 176, 184
)

// A damage. whole: a program that still runs must be profiled as if nothing were.
type damage struct {
	name  string
	whole bool
	do    func(m *image)
}

var damages = []damage{
	// section headers: nobody needs them
	{"no section headers", true, func(m *image) { m.put64(40, 0); m.put16(60, 0); m.put16(62, 0) }},
	{"section headers wiped", true, func(m *image) { m.fill(m.u64(40), uint64(len(m.f.Sections))*64, 0) }},
	{"section headers behind the end", true, func(m *image) { m.put64(40, uint64(len(m.b))+4096) }},
	{"section headers at the end of all", true, func(m *image) { m.put64(40, 0xfffffffffffffff0) }},
	{"65535 section headers", true, func(m *image) { m.put16(60, 0xffff) }},
	{"section headers of no size", true, func(m *image) { m.put16(58, 0) }},
	{"section names nowhere", true, func(m *image) { m.put16(62, 0xfffe) }},
	{"pclntab section renamed", true, func(m *image) { m.put32(m.shdr(".gopclntab"), 0) }},
	{"pclntab section huge", true, func(m *image) { m.put64(m.shdr(".gopclntab")+32, 1<<62) }},
	{"pclntab section behind the end", true, func(m *image) { m.put64(m.shdr(".gopclntab")+24, uint64(len(m.b))+1) }},
	{"symbol table huge", true, func(m *image) { m.put64(m.shdr(".symtab")+32, 1<<62) }},
	{"symbol table without strings", true, func(m *image) { m.put32(m.shdr(".symtab")+40, 0xffff) }},
	{"symbol names out of range", true, func(m *image) {
		at, n := m.u64(m.shdr(".symtab")+24), m.u64(m.shdr(".symtab")+32)
		for i := uint64(0); i < n; i += 24 {
			m.put32(at+i, 0xfffffff0)
		}
	}},
	// the header of the file and the program headers
	{"32 bits", true, func(m *image) { m.b[4] = 1 }},
	{"big endian", true, func(m *image) { m.b[5] = 2 }},
	{"arm64", false, func(m *image) { m.put16(18, 183) }},
	{"no entry", false, func(m *image) { m.put64(24, 0) }},
	{"program headers behind the end", false, func(m *image) { m.put64(32, uint64(len(m.b))+1) }},
	{"65535 program headers", false, func(m *image) { m.put16(56, 0xffff) }},
	{"program headers of 8 bytes", false, func(m *image) { m.put16(54, 8) }},
	{"no program headers", false, func(m *image) { m.put16(56, 0) }},
	{"all segments at one address", false, func(m *image) {
		for i, p := range m.f.Progs {
			if p.Type == elf.PT_LOAD {
				m.put64(m.phdr(i)+16, 0x400000)
			}
		}
	}},
	{"segments larger in the file than in memory", false, func(m *image) {
		for i, p := range m.f.Progs {
			if p.Type == elf.PT_LOAD {
				m.put64(m.phdr(i)+32, p.Memsz+1<<20)
			}
		}
	}},
	{"segments up to the end of all", false, func(m *image) {
		for i, p := range m.f.Progs {
			if p.Type == elf.PT_LOAD {
				m.put64(m.phdr(i)+32, 1<<63)
				m.put64(m.phdr(i)+40, 1<<63)
			}
		}
	}},
	{"notes huge", true, func(m *image) {
		for i, p := range m.f.Progs {
			if p.Type == elf.PT_NOTE {
				m.put64(m.phdr(i)+32, 1<<40)
				m.fill(p.Off, 12, 0xff)
			}
		}
	}},
	{"empty", false, func(m *image) { m.b = nil }},
	{"64 bytes", false, func(m *image) { m.b = m.b[:64] }},
	{"half", false, func(m *image) { m.b = m.b[:len(m.b)/2] }},
	// build information
	{"build information wiped", true, func(m *image) { m.fill(m.buildinfo, 16, 0) }},
	{"version of endless length", true, func(m *image) { m.fill(m.buildinfo+32, 10, 0xff) }},
	{"version is no version", true, func(m *image) { m.fill(m.buildinfo+33, 6, 'x') }},
	{"a version to come", false, func(m *image) { copy(m.b[m.buildinfo+33:], "go1.99") }},
	// the function table
	{"no magic", false, func(m *image) { m.put32(m.pclntab, 0xdeadbeef) }},
	{"another format's magic", false, func(m *image) { m.put32(m.pclntab, 0xfffffffb) }},
	{"1<<60 functions", true, func(m *image) { m.put64(m.pclntab+8, 1<<60) }},
	{"no functions", true, func(m *image) { m.put64(m.pclntab+8, 0) }},
	{"text start elsewhere", true, func(m *image) {
		if m.u64(m.pclntab+24) == 0 {
			m.put64(m.pclntab+24, 0x1234) // 1.26: nobody looks
		}
	}},
	{"tables in disorder", true, func(m *image) { m.put64(m.pclntab+32, 1<<40) }},
	{"a second magic", true, func(m *image) {
		m.b = append(m.b, m.b[m.pclntab:m.pclntab+72]...)
	}},
	{"names without end", false, func(m *image) {
		for i := m.names + 1; i < m.cu; i++ {
			if m.b[i] == 0 {
				m.b[i] = 'x'
			}
		}
	}},
	{"files without end", false, func(m *image) {
		for i := m.files; i < m.pctab; i++ {
			if m.b[i] == 0 {
				m.b[i] = '/'
			}
		}
	}},
	{"file numbers out of range", false, func(m *image) { m.fill(m.cu, m.files-m.cu, 0x7f) }},
	{"numbers without end", false, func(m *image) { m.fill(m.pctab, m.functab-m.pctab, 0xff) }},
	{"numbers of nothing", false, func(m *image) { m.fill(m.pctab, m.functab-m.pctab, 0) }},
	{"functions in disorder", false, func(m *image) {
		for i := m.nfunc / 2; i < m.nfunc/2+16; i++ {
			m.put32(m.functab+8*i, m.u32(m.functab+8*i)^0xff00)
		}
	}},
	{"records out of range", false, func(m *image) {
		for i := uint64(0); i < m.nfunc; i++ {
			m.put32(m.functab+8*i+4, 0xfffffff0)
		}
	}},
	{"all functions one record", false, func(m *image) {
		for i := uint64(0); i < m.nfunc; i++ {
			m.put32(m.functab+8*i+4, m.u32(m.functab+4))
		}
	}},
	{"stack depths out of range", false, func(m *image) { m.records(func(at uint64) { m.put32(at+16, 0xfffffff0) }) }},
	{"lines out of range", false, func(m *image) { m.records(func(at uint64) { m.put32(at+24, 0xfffffff0) }) }},
	{"names out of range", false, func(m *image) { m.records(func(at uint64) { m.put32(at+4, 0x7ffffff0) }) }},
	{"4 billion pcdata", false, func(m *image) { m.records(func(at uint64) { m.put32(at+28, 0xffffffff) }) }},
	{"255 funcdata", false, func(m *image) {
		m.records(func(at uint64) {
			if m.new {
				m.b[at+43] = 255
			} else {
				m.b[at+39] = 255
			}
		})
	}},
	// moduledata
	{"moduledata wiped", false, func(m *image) { m.fill(m.moduledata, 512, 0) }},
	{"moduledata of ones", false, func(m *image) { m.fill(m.moduledata+8, 504, 0xff) }},
	{"ftab of endless length", false, func(m *image) { m.put64(m.moduledata+mdFtab+8, 1<<60) }},
	{"names of endless length", false, func(m *image) { m.put64(m.moduledata+mdNames+8, 1<<62) }},
	{"text elsewhere", false, func(m *image) { m.put64(m.moduledata+mdText, 0x1000) }},
	{"text ends before it begins", false, func(m *image) { m.put64(m.moduledata+mdEtext, m.u64(m.moduledata+mdText)-64) }},
	{"modules in a circle", false, func(m *image) {
		next := map[bool]uint64{true: 584, false: 544}[m.new]
		m.put64(m.moduledata+next, m.addr(m.moduledata))
	}},
	{"next module nowhere", false, func(m *image) {
		next := map[bool]uint64{true: 584, false: 544}[m.new]
		m.put64(m.moduledata+next, 0x7fffffff0000)
	}},
	{"wait reasons of endless length", false, func(m *image) {
		for i := uint64(0); i < 30; i++ {
			m.put64(m.waitReasons+16*i+8, 1<<62)
		}
	}},
	{"wait reasons nowhere", false, func(m *image) {
		for i := uint64(0); i < 30; i++ {
			m.put64(m.waitReasons+16*i, 0x7fffffff0000)
		}
	}},
}

// addr is the inverse of offset.
func (m *image) addr(off uint64) uint64 {
	for _, p := range m.f.Progs {
		if p.Type == elf.PT_LOAD && off >= p.Off && off-p.Off < p.Filesz {
			return p.Vaddr + off - p.Off
		}
	}
	return 0
}

const mostMemory = 100 << 10 // kB

// mostHeld is the most memory that a process had until it ended, in kB. (What the kernel tells of a process that has ended
// is at least what the tests themselves had when they started it.)
func mostHeld(p *process) (most int) {
	for ; !p.ended(); time.Sleep(time.Millisecond) {
		var kb int
		if fmt.Sscanf(field(p.pid, "", "VmHWM"), "%d kB", &kb); kb > most {
			most = kb
		}
	}
	return
}

// bounded runs goprof: it must end by itself in time, within its memory, by no signal, and say something.
func bounded(t *testing.T, limit time.Duration, args ...string) (int, string) {
	t.Helper()
	p := start(t, []option{workdir(t.TempDir())}, goprofPath, args...)
	if args[0] == "run" {
		// A child that hangs is no fault of goprof's, which hands the signal on.
		hangs := time.AfterFunc(limit/2, func() { p.Process.Signal(syscall.SIGTERM) })
		defer hangs.Stop()
	}
	held := make(chan int)
	go func() { held <- mostHeld(p) }()
	status := p.wait(limit)
	if ws := p.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		t.Errorf("%v: killed by %v\n%s", args, ws.Signal(), tail(p.err()))
	}
	if most := <-held; most > mostMemory {
		t.Errorf("%v: %d kB of memory", args, most)
	}
	if p.err() == "" && p.out() == "" {
		t.Errorf("%v: status %d and not a word", args, status)
	}
	return status, unbroken(p.err())
}

// Shows: whatever is damaged, goprof neither crashes nor hangs nor takes much memory, and it says something. Programs that
// the kernel still runs and whose tables are whole are profiled as if nothing were.
func TestDamage(t *testing.T) {
	t.Parallel()
	builds := []string{"1.19-plain", "1.26-plain"}
	if testing.Short() {
		builds = builds[1:]
	}
	each(t, builds, false, func(t *testing.T, build string) {
		alive := make(chan string, len(damages))
		t.Run("all", func(t *testing.T) {
			for i, d := range damages {
				if testing.Short() && i%3 != 0 {
					continue
				}
				d := d
				t.Run(d.name, func(t *testing.T) {
					t.Parallel()
					if tryDamage(t, build, d) {
						alive <- d.name
					}
				})
			}
		})
		close(alive)
		var names []string
		for name := range alive {
			names = append(names, name)
		}
		sort.Strings(names)
		t.Logf("%d kinds of damage; the kernel and the runtime bear %d of them: %s", len(damages), len(names), strings.Join(names, ", "))
	})
}

// tryDamage says whether the program still came up.
func tryDamage(t *testing.T, build string, d damage) bool {
	m := openImage(t, target(build))
	d.do(m)
	dir := t.TempDir()
	path, made := filepath.Join(dir, "b"), filepath.Join(dir, "made")
	if err := os.WriteFile(made, m.b, 0o777); err != nil {
		t.Fatal(err)
	}
	copyProgram(t, made, path)
	os.Chmod(path, 0o777)
	status, said := bounded(t, 10*time.Second, "info", path)
	if d.whole && status != 0 {
		t.Errorf("info: status %d, says %s", status, said)
	}
	bounded(t, 10*time.Second, "run", path, "exitcode", "-dur", "100ms", "0")

	p, err := tryStart(t, path, "names", "-dur", "1m")
	if err != nil {
		if d.whole {
			t.Errorf("does not start: %v", err)
		}
		return false
	}
	defer p.quit()
	ready := p.comesUp(5 * time.Second)
	if d.whole && !ready {
		t.Errorf("does not come up:\n%s", tail(p.err()))
	}
	if p.ended() {
		return false
	}
	// Also one that hangs at its start is looked at.
	status, said = bounded(t, 10*time.Second, "dump", fmt.Sprint(p.pid))
	t.Logf("dump: status %d, says %s", status, said)
	bounded(t, 10*time.Second, "attach", "--duration", "300ms", fmt.Sprint(p.pid))
	if why := untouched(p.pid); why != "" && !p.ended() {
		t.Error(why)
	}
	if ready && d.whole {
		sameAsItself(t, p, 16, 0)
	}
	return ready
}

// tryStart is start for what the kernel may refuse.
func tryStart(t *testing.T, path string, args ...string) (*process, error) {
	probe := exec.Command(path, "exitcode", "0")
	probe.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := probe.Start(); err != nil {
		return nil, err
	}
	probe.Process.Kill()
	probe.Wait()
	return start(t, []option{env("ODD_DUMP=" + filepath.Join(t.TempDir(), "dump"))}, path, args...), nil
}

func (p *process) comesUp(limit time.Duration) bool {
	for end := time.Now().Add(limit); time.Now().Before(end) && !p.ended(); time.Sleep(5 * time.Millisecond) {
		if strings.Contains(p.err(), "READY ") {
			return true
		}
	}
	return false
}

// Shows: a file that is cut off anywhere is answered in words.
func TestTruncated(t *testing.T) {
	pieces := 60
	if testing.Short() {
		pieces = 12
	}
	each(t, []string{"1.19-pie-sw", "1.26-sw"}, true, func(t *testing.T, build string) {
		m := openFile(t, target(build))
		for i := 0; i < pieces; i++ {
			path := filepath.Join(t.TempDir(), "cut")
			if err := os.WriteFile(path, m[:len(m)*i/pieces], 0o666); err != nil {
				t.Fatal(err)
			}
			if status, said := bounded(t, 10*time.Second, "info", path); status != 0 && !strings.HasPrefix(said, "goprof: ") {
				t.Errorf("cut at %d of %d: status %d, says %s", i, pieces, status, said)
			}
		}
	})
}

func openFile(t *testing.T, path string) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Shows: the size of a function table is no matter: the largest program at hand, and all of the toolchain beside it.
func TestLargeTables(t *testing.T) {
	tools, _ := filepath.Glob(filepath.Join(goroot(t, "1.26"), "pkg", "tool", "linux_amd64", "*"))
	if len(tools) < 3 {
		t.Fatalf("only %d tools", len(tools))
	}
	for _, tool := range append(tools, filepath.Join(goroot(t, "1.26"), "bin", "go")) {
		if status, said := bounded(t, 10*time.Second, "info", tool); status != 0 {
			t.Errorf("%s: status %d, says %s", tool, status, said)
		}
	}
}
