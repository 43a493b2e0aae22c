// Package house has no code: its tests hold the layout that ARCHITECTURE.md states, above all which package may import
// which.
package house
