package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

// Where the results are kept: a record per row, and the table made of all of them.

func saveRecord(dir string, r *record) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return fmt.Errorf("%s: %w", r.Row, err)
	}
	return replaceFile(recordFile(dir, r.Row), append(data, '\n'))
}

// replaceFile: the old one is there until the new one is whole.
func replaceFile(path string, data []byte) error {
	part := path + ".part"
	err := os.WriteFile(part, data, 0o666)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		os.Remove(part)
	}
	return err
}

// loadRecords gives all that were kept, in the order of the table.
func loadRecords(dir string) (v []*record, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r := &record{}
		if err := json.Unmarshal(data, r); err != nil {
			return nil, fmt.Errorf("%s: %w; remove it and measure the row again", file, err)
		}
		v = append(v, r)
	}
	sort.Slice(v, func(i, j int) bool { return before(v[i], v[j]) })
	return v, nil
}

// before: by number, and for one number by load; what makes threads comes last.
func before(a, b *record) bool {
	rank := map[string]int{"idle": 0, "echo": 1, "cpu": 2, "threads": 3}
	if last := a.Load == "threads"; last != (b.Load == "threads") {
		return !last
	}
	if a.N != b.N {
		return a.N < b.N
	}
	return rank[a.Load] < rank[b.Load]
}

// publish writes the table anew from all records.
func publish(dir, file string) error {
	v, err := loadRecords(dir)
	if err != nil {
		return err
	}
	return replaceFile(file, []byte(resultsText(v)))
}
