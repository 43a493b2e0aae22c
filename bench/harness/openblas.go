package main

import (
	"os"
	"strings"
)

// openBLAS returns the setting of OpenBLAS's kernels for this processor, for every peer that uses it. OpenBLAS selects them
// by the processor's model, and versions that do not know a model take it for a very old one: 0.3.21 computes with the
// kernels of a Prescott on newer processors of Intel, and takes up to 2.8 times as long. A setting of the user stays.
func openBLAS() []string {
	if os.Getenv("OPENBLAS_CORETYPE") != "" {
		return nil
	}
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return nil
	}
	if core := coreType(string(b)); core != "" {
		return []string{"OPENBLAS_CORETYPE=" + core}
	}
	return nil
}

// coreType returns OpenBLAS's name of the kernels for a processor as /proc/cpuinfo describes it, or "" where OpenBLAS's
// own choice is as good.
func coreType(cpuinfo string) string {
	has := map[string]bool{}
	for _, f := range strings.Fields(field(cpuinfo, "flags")) {
		has[f] = true
	}
	switch {
	case has["avx512_bf16"] && has["avx512bw"] && has["avx512vl"]:
		return "Cooperlake"
	case has["avx512bw"] && has["avx512vl"] && has["avx512dq"]:
		return "SkylakeX"
	case has["avx2"] && has["fma"] && field(cpuinfo, "vendor_id") == "AuthenticAMD":
		return "Zen"
	case has["avx2"] && has["fma"]:
		return "Haswell"
	}
	return ""
}
