package docs

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write what commands print into the pages, where a page says something else")

// maxSkipped bounds the blocks that are not typed.
const maxSkipped = 16

// TestVerbatim types every block of shell and Go of the pages, in the order of each page, in an empty folder for each
// page. A block of the language console is commands after "$ " and what they print; one of the language sh is only
// commands, which must succeed; one of the language go is main.go, or a fragment that must compile.
//
// Two things are not as a reader types them: the module and the command are this checkout, where a page gets them from
// the network, and `go run .` runs a program that was built before.
func TestVerbatim(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash here, which the pages are typed into")
	}
	if testing.Short() {
		t.Skip("builds the command and the programs")
	}
	var all []block
	byPage := map[string][]block{}
	skipped := 0
	for _, page := range pages(t) {
		found, err := blocks(page, read(t, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range found {
			if b.skip != "" {
				skipped++
				t.Logf("%s is not typed: %s", b, b.skip)
			}
			known := map[string]bool{"": true, "sh": true, "console": true, "go": true, "json": true, "python": true, "text": true}
			if !known[b.lang] {
				t.Errorf("%s: the language %q is none that this test knows", b, b.lang)
			}
		}
		byPage[page], all = found, append(all, found...)
	}
	if skipped > maxSkipped {
		t.Errorf("%d blocks are not typed, more than %d", skipped, maxSkipped)
	}
	bin := t.TempDir()
	var building sync.WaitGroup
	building.Go(func() { goBuild(t, "build", "-o", filepath.Join(bin, "essmc"+exeSuffix()), "./cmd/essmc") })
	programs := buildPrograms(t, all)
	building.Wait()
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(goScript), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, page := range pages(t) {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("curl"); err != nil && slices.ContainsFunc(byPage[page], func(b block) bool {
				return b.skip == "" && b.lang != "go" && strings.Contains(b.text, "curl ")
			}) {
				t.Skip("the page uses curl, which is not there")
			}
			(&reader{t: t, page: page, dir: t.TempDir(), bin: bin, programs: programs}).follow(byPage[page])
		})
	}
}

// goScript is the go command of the pages. The file .program has the command line of the program that main.go is.
const goScript = `#!/bin/sh
case "$*" in
"run ."*) shift 2; exec $(cat .program) "$@" ;;
"mod init "* | "get github.com/essmc/essmc"* | "install github.com/essmc/essmc/cmd/essmc"* | "install -tags cuda github.com/essmc/essmc/cmd/essmc"*) ;;
*) echo "the pages' go command does not know: go $*" >&2; exit 2 ;;
esac
`

// reader follows a page.
type reader struct {
	t         *testing.T
	page, dir string
	bin       string
	programs  *programs
	edits     []string // pairs of old and new text of the page
}

func (r *reader) follow(blocks []block) {
	for _, b := range blocks {
		if b.skip != "" {
			continue
		}
		switch b.lang {
		case "go":
			if isProgram(b) {
				r.write("main.go", b.text)
				r.write(".program", r.programs.path[b.String()])
			}
		case "sh":
			if out, err := r.type_("set -e\n" + b.text); err != nil {
				r.t.Fatalf("%s: %v\n%s", b, err, out)
			}
		case "console":
			r.console(b)
		}
	}
	if len(r.edits) > 0 && *update {
		text := read(r.t, r.page)
		for i := 0; i < len(r.edits); i += 2 {
			text = strings.Replace(text, r.edits[i], r.edits[i+1], 1)
		}
		if err := os.WriteFile(filepath.Join(root, r.page), []byte(text), 0o666); err != nil {
			r.t.Fatal(err)
		}
	}
}

// console types the commands of a block, and compares what each prints.
func (r *reader) console(b block) {
	var command, want string
	check := func() {
		if command == "" {
			if strings.TrimSpace(want) != "" {
				r.t.Errorf("%s: no command prints %q", b, want)
			}
			return
		}
		got, err := r.type_(command)
		if same(want, got) {
			return
		}
		r.t.Errorf("%s: %s (%v)\nprints\n%s\nthe page says\n%s", b, command, err, got, want)
		if !strings.Contains(want, elision) {
			r.edits = append(r.edits, "$ "+shown(command)+want, "$ "+shown(command)+got)
		}
	}
	for _, line := range strings.SplitAfter(b.text, "\n") {
		if c, ok := strings.CutPrefix(line, "$ "); ok {
			check()
			command, want = c, ""
		} else if c, ok := strings.CutPrefix(line, "> "); ok && want == "" {
			command += c
		} else {
			want += line
		}
	}
	check()
}

// shown is a command as a page shows it: lines after the first begin with "> ".
func shown(command string) string {
	return strings.ReplaceAll(strings.TrimSuffix(command, "\n"), "\n", "\n> ") + "\n"
}

// type_ types commands into a shell in the folder of the page. It returns what they print, standard error included.
func (r *reader) type_(commands string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", commands)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "PATH="+r.bin+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+r.dir,
		"XDG_CONFIG_HOME="+filepath.Join(r.dir, ".config"), "XDG_CACHE_HOME="+filepath.Join(r.dir, ".cache"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no end after a minute: %w", err)
	}
	return out.String(), err
}

func (r *reader) write(name, text string) {
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o666); err != nil {
		r.t.Fatal(err)
	}
}
