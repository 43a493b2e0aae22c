// Command sbom writes the software bill of materials of a Go program to standard output, as CycloneDX 1.6 in JSON:
//
//	go run ./internal/sbom PROGRAM [VERSION] > PROGRAM.cdx.json
//
// It imports the standard library only. It lists the version of Go and the modules linked into the program, as
// recorded in the program itself. It adds no time and no machine name, so equal programs give equal bytes.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 2 || len(os.Args) > 3 || strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM [VERSION]: an executable that go build has written, and the "+
			"version of its release")
		os.Exit(2)
	}
	version := ""
	if len(os.Args) == 3 {
		version = os.Args[2]
	}
	if err := run(os.Stdout, os.Args[1], version); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// run writes the bill of a program. The version replaces what the program states of itself, unless it is empty.
func run(w io.Writer, program, version string) error {
	f, err := os.Open(program)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := buildinfo.Read(f)
	if err != nil {
		return fmt.Errorf("%s: expected an executable that go build has written: %w", program, err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return err
	}
	if version != "" {
		info.Main.Version = version
	}
	name := strings.TrimSuffix(filepath.Base(info.Path), ".exe")
	return write(w, bill(name, info, sum.Sum(nil)))
}

// write encodes a document with one line for each value, and with the signs of URLs as they are.
func write(w io.Writer, d *document) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(d)
}

// The parts of a CycloneDX document that are used here.
type (
	document struct {
		Schema       string       `json:"$schema"`
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version,omitempty"`
		Hashes     []hash     `json:"hashes,omitempty"`
		PURL       string     `json:"purl,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Alg     string `json:"alg"`
		Content string `json:"content"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

// bill makes the document of a program with the given SHA-256.
func bill(name string, info *debug.BuildInfo, sum []byte) *document {
	main := component{Type: "application", Name: name, Version: info.Main.Version,
		PURL:   purl(info.Main.Path, info.Main.Version),
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum)}}}
	main.Ref = main.PURL
	for _, s := range info.Settings {
		switch s.Key {
		case "CGO_ENABLED", "GOARCH", "GOOS", "GOAMD64", "GOARM64", "-trimpath", "vcs.revision", "vcs.modified":
			main.Properties = append(main.Properties, property{"go:build:" + s.Key, s.Value})
		}
	}
	std := strings.TrimPrefix(info.GoVersion, "go")
	list := []component{{Type: "library", Name: "std", Version: std, Ref: purl("std", std), PURL: purl("std", std)}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component{Type: "library", Name: m.Path, Version: m.Version, PURL: purl(m.Path, m.Version)}
		c.Ref = c.PURL
		if m.Sum != "" { // of the module's files, as go.sum has it: SHA-256 over their names and hashes
			c.Properties = []property{{"go:sum", m.Sum}}
			if b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil &&
				len(b) == sha256.Size {
				c.Properties = append(c.Properties, property{"go:sum:sha256", hex.EncodeToString(b)})
			}
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b component) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	refs := make([]string, len(list))
	for i, c := range list {
		refs[i] = c.Ref
	}
	return &document{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1,
		Serial: serial(sum), Metadata: metadata{main}, Components: list,
		// The program states which modules it holds, and not which of them needs which.
		Dependencies: []dependency{{main.Ref, refs}},
	}
}

// serial is a UUID of the program's content, of version 8, which leaves the bits to its maker.
func serial(sum []byte) string {
	u := slices.Clone(sum[:16])
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// purl is the package URL of a Go module.
func purl(path, version string) string {
	parts := strings.Split(strings.ToLower(path), "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	s := "pkg:golang/" + strings.Join(parts, "/")
	if version != "" && version != "(devel)" {
		s += "@" + url.QueryEscape(version)
	}
	return s
}
