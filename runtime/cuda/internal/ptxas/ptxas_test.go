package ptxas

import (
	"os"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const out = `ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'sum_rows' for 'sm_80'
ptxas info    : Function properties for sum_rows
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 18 registers, used 1 barriers, 2048 bytes smem, 376 bytes cmem[0]
ptxas info    : Compile time = 3.361 ms
ptxas info    : Compiling entry function 'other' for 'sm_80'
ptxas info    : Used 5 registers
`
	all, err := parse(out, "sm_80")
	if err != nil || len(all) != 2 || all[0] != (Report{"sum_rows", "sm_80", 18, 16, 12, 20, 2048}) ||
		all[1] != (Report{"other", "sm_80", 5, 0, 0, 0, 0}) || !all[0].Spills() || all[1].Spills() {
		t.Errorf("%v, %v", all, err)
	}
	for _, bad := range []string{"", "ptxas info    : Compiling entry function 'x' for 'sm_80'\n"} {
		if all, err := parse(bad, "sm_80"); err == nil {
			t.Errorf("%q is %v", bad, all)
		}
	}
}

func TestAssemble(t *testing.T) {
	a, err := Find()
	if err != nil {
		t.Skip(err)
	}
	a.cache = t.TempDir()
	text, err := os.ReadFile("../../ptx/testdata/sum_rows.ptx")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second from the cache
		n := 0
		a.All([]string{string(text)}, Archs, func(_, arch string, r []Report, err error) {
			if n++; err != nil || len(r) != 1 || r[0].Kernel != "sum_rows" || r[0].Arch != arch || r[0].Registers < 5 {
				t.Errorf("%v, %v", r, err)
			}
		})
		if n != len(Archs) {
			t.Errorf("%d reports", n)
		}
	}
	if files, err := os.ReadDir(a.cache); err != nil || len(files) != len(Archs) {
		t.Errorf("the cache holds %d reports, %v", len(files), err)
	}
	_, err = a.Assemble(strings.Replace(string(text), "bar.sync", "bar.none", 1), "sm_80")
	if err == nil || !strings.Contains(err.Error(), "sm_80: ") || !strings.Contains(err.Error(), "bar") {
		t.Errorf("an instruction that is none: %v", err)
	}
	_, err = a.Assemble(string(text), "sm_70")
	if err == nil {
		t.Error("a module for newer cards was assembled for sm_70")
	}
}
