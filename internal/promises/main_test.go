package main

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	got := parse("# Page\n\n| promise | limit | held by |\n|---|---|---|\n" +
		"| One | 1 ms | `a/b: TestX TestY`, `c: TestZ` |\n| Two | – | by hand |\n")
	if len(got) != 1 || got[0].text != "One" || got[0].limit != "1 ms" || len(got[0].tests) != 3 ||
		got[0].tests[1] != (test{"a/b", "TestY"}) || got[0].tests[2] != (test{"c", "TestZ"}) {
		t.Errorf("found %+v", got)
	}
}

func TestRead(t *testing.T) {
	all := map[test]found{}
	err := read(strings.NewReader(`{"Action":"run","Test":"TestX"}
building
{"Action":"output","Test":"TestX/part","Output":"    x_test.go:7: figure: 3 ms | 4 MiB\n"}
{"Action":"fail","Test":"TestX/part","Elapsed":0.5}
{"Action":"pass","Test":"TestX","Elapsed":1.5}
{"Action":"pass","Test":"TestY","Elapsed":0.001}
{"Action":"skip","Test":"TestZ"}
{"Action":"output","Test":"TestV/good","Output":"nothing\n"}
{"Action":"pass","Test":"TestV/good"}
{"Action":"output","Test":"TestV/bad","Output":"expected 1, found 2\n"}
{"Action":"fail","Test":"TestV/bad"}
{"Action":"fail","Test":"TestV"}
{"Action":"output","Test":"TestKilled","Output":"=== RUN\n"}
`), "a", all)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"TestX": `3 ms \| 4 MiB`, "TestY": "holds, 0.01 s", "TestZ": "skip"} {
		if got := all[test{"a", name}].String(); got != want {
			t.Errorf("%s: found %q, expected %q", name, got, want)
		}
	}
	if v := all[test{"a", "TestV"}]; v.outcome != "fail" || v.text != "expected 1, found 2\n" {
		t.Errorf("TestV: found %+v, expected the text of the part that failed", v)
	}
	if k, ok := all[test{"a", "TestKilled"}]; !ok || k.outcome != "" {
		t.Errorf("TestKilled: found %+v, expected no outcome", k)
	}
}
