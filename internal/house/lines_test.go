package house

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// longest is the maximum length of a line, with tabs of four columns.
const longest = 120

// longLines are folders whose lines are not yet held to that. The list only shrinks.
var longLines = []string{"bench", "runtime/backendtest", "runtime/cpu", "runtime/cuda", "runtime/device", "runtime/lowering", "serve",
	"train"}

// TestLines checks the length of the lines of Go files other than tests and generated ones. Text in backquotes has
// its own lines, which programs print.
func TestLines(t *testing.T) {
	root, found := filepath.Join("..", ".."), map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && strings.HasPrefix(name, ".") || name == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasPrefix(string(source), "// Code generated ") {
			return nil
		}
		rel = filepath.ToSlash(rel)
		listed := slices.IndexFunc(longLines, func(dir string) bool { return strings.HasPrefix(rel, dir+"/") })
		for number, columns := range longLinesOf(source) {
			if listed < 0 {
				t.Errorf("%s:%d: %d columns, expected at most %d", rel, number, columns, longest)
				continue
			}
			found[longLines[listed]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range longLines {
		if !found[dir] {
			t.Errorf("%s has no long lines: take it off the list", dir)
		}
	}
}

// longLinesOf returns the numbers of columns of lines that are too long, by their numbers.
func longLinesOf(source []byte) map[int]int {
	long := map[int]int{}
	number := 0
	for line := range strings.Lines(string(source)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if n := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t"); n > longest {
			long[number] = n
		}
	}
	if len(long) == 0 {
		return nil
	}
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			return long
		}
		if kind != token.STRING || text[0] != '`' {
			continue
		}
		first := file.Line(at)
		for i := range 1 + strings.Count(text, "\n") {
			delete(long, first+i)
		}
	}
}

func TestLongLinesOf(t *testing.T) {
	x := strings.Repeat("x", longest-3)
	source := "package p\n\n// " + x + "\n// " + x + "é\nvar a = `" + x + "\n" + x + "xxxx`\n\tvar b = 1 // " + x + "\n"
	if long := longLinesOf([]byte(source)); len(long) != 2 || long[4] != longest+1 || long[7] != longest+14 {
		t.Errorf("found %v, expected lines 4 and 7", long)
	}
}
