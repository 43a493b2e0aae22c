// Package house has no code. Its tests check the layout that ARCHITECTURE.md describes, above all which package may
// import which.
package house
