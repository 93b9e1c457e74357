// Package dotted has an import path whose last element holds a dot: its symbols are spelled dot%2eted.
package dotted

// Call calls f, from a function with the odd name.
//
//go:noinline
func Call(f func()) { f() }
