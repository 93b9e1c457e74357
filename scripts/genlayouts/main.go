// genlayouts writes lib/go/layout_table.inc: where the members of the runtime's structs stand in each Go version.
//
//	go run main.go [-check] [-moved 1.16.4,...] -fields layout_fields.inc -table layout_table.inc go1.26.10=PROGRAM ...
//
// PROGRAM is any unstripped program of that release; its DWARF is the source of every number. Rows of versions
// that are not named keep the text they have. With -check nothing is written: the exit status is 1 and the lines
// that differ are shown when a named version's row is not what the table says. The patch release in .origin
// may differ then: another machine has another one, and what counts is that the offsets agree.
//
// A minor version has one row, but where a patch release moved a member (-moved): that one begins a second row. Of
// several releases that one row is for, the last one named is written.
//
// Only the standard library is used, so it runs with the newest toolchain of scripts/go-toolchains as it is.
package main

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// A member of a runtime struct that goprof wants to know.
type field struct {
	id, strct, member string
	group             int // fields between two blank lines of layout_fields.inc
}

type place struct{ offset, size int64 }

var absent = place{-1, 0}

// What a member was called in other versions. The first name that exists counts.
var aliases = map[string][]string{
	"runtime.g.bubble": {"syncGroup"}, // 1.24
}

// A struct that is not there is a spelling mistake of ours, but for these.
var mayVanish = map[string]bool{
	"runtime.hmap": true, // up to 1.23
}

var fieldLine = regexp.MustCompile(`^X\((\w+),\s*"([^"]+)",\s*"([^"]+)"\)$`)

func readFields(path string) ([]field, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []field
	group := 0
	for n, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			group++
		}
		if !strings.HasPrefix(line, "X(") {
			continue
		}
		m := fieldLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("%s:%d: not X(name, \"struct\", \"member\")", path, n+1)
		}
		out = append(out, field{m[1], m[2], m[3], group})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no fields", path)
	}
	return out, nil
}

// The array whose length tells how many wait reasons there are.
const waitReasons = "runtime.waitReasonStrings"

// types finds named struct types of a program, and the types of its named variables.
func types(program string, names map[string]bool) (map[string]dwarf.Type, error) {
	file, err := elf.Open(program)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := file.DWARF()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	found := map[string]dwarf.Type{}
	for r := data.Reader(); ; {
		entry, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", program, err)
		}
		if entry == nil {
			return found, nil
		}
		name, _ := entry.Val(dwarf.AttrName).(string)
		if !names[name] || found[name] != nil {
			continue
		}
		offset := entry.Offset
		switch entry.Tag {
		case dwarf.TagStructType:
		case dwarf.TagVariable:
			offset, _ = entry.Val(dwarf.AttrType).(dwarf.Offset)
		default:
			continue
		}
		if found[name], err = data.Type(offset); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", program, name, err)
		}
	}
}

// underlying strips the names that Go gives to types ("type gobuf struct").
func underlying(t dwarf.Type) dwarf.Type {
	for {
		d, ok := t.(*dwarf.TypedefType)
		if !ok {
			return t
		}
		t = d.Type
	}
}

// locate follows a path of members. A slice counts as a whole: its place is that of its first word.
func locate(s *dwarf.StructType, path string) (place, bool) {
	p := place{}
	for _, name := range strings.Split(path, ".") {
		var member *dwarf.StructField
		if s != nil {
			for _, f := range s.Field {
				if f.Name == name {
					member = f
				}
			}
		}
		if member == nil {
			return absent, false
		}
		p.offset += member.ByteOffset
		p.size = member.Type.Size()
		s, _ = underlying(member.Type).(*dwarf.StructType)
	}
	return p, true
}

// find gives the place of one field of the list, under any of its names.
func find(s *dwarf.StructType, f field) place {
	if s == nil {
		return absent
	}
	if f.member == "<sizeof>" {
		return place{s.ByteSize, s.ByteSize}
	}
	for _, path := range append([]string{f.member}, aliases[f.strct+"."+f.member]...) {
		if p, ok := locate(s, path); ok {
			return p
		}
	}
	return absent
}

// A row is for the releases of a minor version from a patch on.
type version struct{ minor, from int }

func (v version) before(o version) bool {
	return v.minor < o.minor || v.minor == o.minor && v.from < o.from
}

var releaseName = regexp.MustCompile(`^(?:go)?1\.(\d+)(?:\.(\d+))?$`)

// parse reads "go1.16.4" or "1.16.4" as minor version and patch.
func parse(release string) (version, error) {
	m := releaseName.FindStringSubmatch(release)
	if m == nil {
		return version{}, fmt.Errorf("not a release: %q", release)
	}
	minor, _ := strconv.Atoi(m[1])
	patch, _ := strconv.Atoi(m[2])
	return version{minor, patch}, nil
}

// rowOf tells which row is for a release.
func rowOf(release version, moved []version) version {
	v := version{release.minor, 0}
	for _, m := range moved {
		if m.minor == release.minor && m.from <= release.from && m.from > v.from {
			v = m
		}
	}
	return v
}

// row is the text of one version.
func row(v version, origin, program string, fields []field) (string, error) {
	names := map[string]bool{waitReasons: true}
	for _, f := range fields {
		names[f.strct] = true
	}
	found, err := types(program, names)
	if err != nil {
		return "", err
	}
	for name := range names {
		if found[name] == nil && !mayVanish[name] {
			return "", fmt.Errorf("%s: no %s in its DWARF", program, name)
		}
	}
	reasons, ok := found[waitReasons].(*dwarf.ArrayType)
	if !ok || reasons.Count <= 0 {
		return "", fmt.Errorf("%s: %s is no array", program, waitReasons)
	}
	var b strings.Builder
	from := ""
	if v.from > 0 {
		from = fmt.Sprintf(" .from = %d,", v.from)
	}
	fmt.Fprintf(&b, "{ .minor = %d,%s .origin = \"%s\", .wait_reasons = %d, .f = {\n", v.minor, from, origin, reasons.Count)
	line, group := "", -1
	flush := func() {
		if line != "" {
			b.WriteString("\t" + line + "\n")
		}
		line = ""
	}
	for _, f := range fields {
		s, _ := found[f.strct].(*dwarf.StructType)
		p := find(s, f)
		item := fmt.Sprintf("[GO_%s] = {%d, %d},", f.id, p.offset, p.size)
		if f.group != group || len(line)+len(item) > 100 {
			flush()
		}
		group = f.group
		line = strings.TrimSpace(line + " " + item)
	}
	flush()
	b.WriteString("} },\n")
	return b.String(), nil
}

const head = `/*
 * Generated by scripts/gen-layouts from the DWARF of programs built with the toolchains named in .origin.
 * Do not edit: change layout_fields.inc and run it again. {offset, size}; {-1, 0}: no such member in that
 * version. A struct's own size stands as both. A row with .from is for that patch release and later ones.
 */
`

var rowStart = regexp.MustCompile(`(?m)^\{ \.minor = (\d+),(?: \.from = (\d+),)? `)

// readTable splits a table into its rows.
func readTable(path string) (map[version]string, error) {
	rows := map[version]string{}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return rows, nil
	}
	if err != nil {
		return nil, err
	}
	at := rowStart.FindAllSubmatchIndex(text, -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		v := version{}
		v.minor, _ = strconv.Atoi(string(text[m[2]:m[3]]))
		if m[4] >= 0 {
			v.from, _ = strconv.Atoi(string(text[m[4]:m[5]]))
		}
		rows[v] = string(text[m[0]:end])
	}
	return rows, nil
}

var originText = regexp.MustCompile(`\.origin = "[^"]*"`)

// differences shows the lines of one version's row that are not as a release has them, but for its origin.
func differences(release, have, want string) (out []string) {
	lines := map[string]int{}
	for _, l := range strings.Split(originText.ReplaceAllString(have, ""), "\n") {
		lines[l]++
	}
	for _, l := range strings.Split(originText.ReplaceAllString(want, ""), "\n") {
		if lines[l] == 0 {
			out = append(out, fmt.Sprintf("%s: should be: %s", release, strings.TrimSpace(l)))
		} else {
			lines[l]--
		}
	}
	for l, n := range lines {
		if n > 0 {
			out = append(out, fmt.Sprintf("%s: but there is: %s", release, strings.TrimSpace(l)))
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(out)))
	return out
}

// complete tells a row that was kept but does not know a new member, and a member that no version has: a
// spelling mistake.
func complete(rows map[version]string, fields []field) error {
	for _, f := range fields {
		exists := false
		for v, text := range rows {
			if !strings.Contains(text, "[GO_"+f.id+"] = ") {
				return fmt.Errorf("the row of go1.%d.%d has no %s: its toolchain is needed", v.minor, v.from, f.id)
			}
			exists = exists || !strings.Contains(text, "[GO_"+f.id+"] = {-1, ")
		}
		if !exists {
			return fmt.Errorf("%s.%s (%s): no version has it", f.strct, f.member, f.id)
		}
	}
	return nil
}

func run() error {
	check := flag.Bool("check", false, "compare instead of writing")
	fieldsPath := flag.String("fields", "", "layout_fields.inc")
	tablePath := flag.String("table", "", "layout_table.inc")
	movedText := flag.String("moved", "", "releases that moved a member")
	flag.Parse()
	var moved []version
	for _, release := range strings.FieldsFunc(*movedText, func(r rune) bool { return r == ',' }) {
		v, err := parse(release)
		if err != nil {
			return err
		}
		moved = append(moved, v)
	}
	fields, err := readFields(*fieldsPath)
	if err != nil {
		return err
	}
	rows, err := readTable(*tablePath)
	if err != nil {
		return err
	}
	var diffs []string
	for _, arg := range flag.Args() {
		part := strings.SplitN(arg, "=", 2)
		release, err := parse(part[0])
		if err != nil || len(part) != 2 {
			return fmt.Errorf("not RELEASE=PROGRAM: %q", arg)
		}
		v := rowOf(release, moved)
		text, err := row(v, part[0], part[1], fields)
		if err != nil {
			return err
		}
		diffs = append(diffs, differences(part[0], rows[v], text)...)
		if !*check || rows[v] == "" {
			rows[v] = text
		}
	}
	if err := complete(rows, fields); err != nil {
		return err
	}
	if *check {
		for _, d := range diffs {
			fmt.Println(d)
		}
		if len(diffs) > 0 {
			return fmt.Errorf("%s is not what the toolchains say: run scripts/gen-layouts", *tablePath)
		}
		return nil
	}
	var versions []version
	for v := range rows {
		versions = append(versions, v)
	}
	sort.Slice(versions, func(i, j int) bool { return versions[i].before(versions[j]) })
	out := head
	for _, v := range versions {
		out += rows[v]
	}
	tmp := *tablePath + ".new"
	if err := os.WriteFile(tmp, []byte(out), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, *tablePath)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "genlayouts:", err)
		os.Exit(1)
	}
}
