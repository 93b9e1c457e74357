// The table of reports names tests; they must be there.
package live

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	unitTest = regexp.MustCompile(`^(\w+):(\w+)$`)
)

// sources is the text of all files that match.
func sources(t testing.TB, pattern string) string {
	t.Helper()
	var all strings.Builder
	names, _ := filepath.Glob(filepath.Join(rootDir, pattern))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	if all.Len() == 0 {
		t.Fatalf("no files %s", pattern)
	}
	return all.String()
}

// missingTest says what of a name in the table is not there, "" if all is. A subtest is named by a word of the sources, or
// by several joined with dashes.
func missingTest(t testing.TB, live, name string) string {
	t.Helper()
	if m := unitTest.FindStringSubmatch(name); m != nil {
		text, err := os.ReadFile(filepath.Join(rootDir, "test", "unit", m[1]+".c"))
		if err != nil {
			return err.Error()
		}
		if !regexp.MustCompile(`\b` + m[2] + `\(void \*\*`).Match(text) {
			return "no test " + m[2] + " in test/unit/" + m[1] + ".c"
		}
		return ""
	}
	function, sub, _ := strings.Cut(name, "/")
	if !strings.Contains(live, "\nfunc "+function+"(t *testing.T)") {
		return "no function " + function + " in test/live"
	}
	if sub == "" || strings.Contains(live, `"`+sub+`"`) || strings.Contains(live, `"`+strings.ReplaceAll(sub, "-", " ")+`"`) {
		return ""
	}
	for _, word := range strings.Split(sub, "-") {
		if !strings.Contains(live, `"`+word+`"`) && !strings.Contains(live, word+",") {
			return "no " + word + " in test/live"
		}
	}
	return ""
}

// Shows: every report has a test, or a reason why not, and every test that is named exists.
func TestReports(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(rootDir, "test", "REPORTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	live, rows := sources(t, "test/live/*_test.go"), 0
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || strings.HasPrefix(cells[1], "---") || cells[1] == " report " {
			continue
		}
		rows++
		report, tests := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[len(cells)-2])
		if len(cells) != 5 || !regexp.MustCompile(`^[\w.-]+/[\w.-]+#\d+$`).MatchString(report) {
			t.Errorf("not a row of report, symptom and tests: %s", line)
			continue
		}
		names := quoted.FindAllStringSubmatch(tests, -1)
		if len(names) == 0 && !strings.HasPrefix(tests, "none: ") {
			t.Errorf("%s: neither a test nor a reason: %q", report, tests)
		}
		for _, m := range names {
			if why := missingTest(t, live, m[1]); why != "" {
				t.Errorf("%s: %s: %s", report, m[1], why)
			}
		}
	}
	if rows < 50 {
		t.Errorf("%d rows", rows)
	}
	for _, name := range []string{"TestNoSuchTest", "TestDump/nosuchsubtest", "symbol_names:test_no_such", "no_such_file:test_split"} {
		if missingTest(t, live, name) == "" {
			t.Errorf("%s is not missed", name)
		}
	}
}
