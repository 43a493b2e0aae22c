//go:build race

package kerneltest

const race = true
