package main

import "testing"

func TestCoreType(t *testing.T) {
	for info, want := range map[string]string{
		"vendor_id\t: GenuineIntel\nflags\t\t: fpu avx2 fma avx512f avx512dq avx512bw avx512vl\n":             "SkylakeX",
		"vendor_id\t: GenuineIntel\nflags\t\t: fpu avx2 fma avx512f avx512dq avx512bw avx512vl avx512_bf16\n": "Cooperlake",
		"vendor_id\t: AuthenticAMD\nflags\t\t: avx2 fma\n":                                                    "Zen",
		"vendor_id\t: GenuineIntel\nflags\t\t: avx2 fma\n":                                                    "Haswell",
		"vendor_id\t: GenuineIntel\nflags\t\t: sse2\n":                                                        "",
		"Features\t: asimd\n": "",
	} {
		if got := coreType(info); got != want {
			t.Errorf("%q: %q, expected %q", info, got, want)
		}
	}
}
