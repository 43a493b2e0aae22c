// Package spell finds the existing name that is nearest to an unknown one.
//
// It imports the standard library only. The work is bounded, since it reads only the first 80 characters of each word.
// Equal words give equal results.
package spell

import "strings"

// limit is how many characters of a word count. Names from files may be of any length.
const limit = 80

// Distance counts the insertions, deletions and replacements of characters, and swaps of two neighbors, that lead from
// one word to the other. No part of a word is changed twice.
func Distance(a, b string) int {
	x, y := head(a), head(b)
	n := len(y) + 1
	// distances of x[:i-1], x[:i], x[:i+1] from all y[:j]
	above, row, below := make([]int, n), make([]int, n), make([]int, n)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		below[0] = i + 1
		for j := range y {
			replaced := row[j]
			if x[i] != y[j] {
				replaced++
			}
			d := min(replaced, row[j+1]+1, below[j]+1)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				d = min(d, above[j-1]+1)
			}
			below[j+1] = d
		}
		above, row, below = row, below, above
	}
	return row[len(y)]
}

// Nearest gives the word of list with the smallest distance from word, the first of several; empty for an empty list.
func Nearest(word string, list []string) string {
	best, near := 0, ""
	for i, s := range list {
		if d := Distance(word, s); i == 0 || d < best {
			best, near = d, s
		}
	}
	return near
}

// Close returns the word of list that is probably meant: the nearest one, whatever its case, if at most a third of the
// longer word differs, or one character of a shorter one. It returns "" if there is none.
func Close(word string, list []string) string {
	best, near := limit, ""
	low := strings.ToLower(word)
	for _, s := range list {
		d := Distance(low, strings.ToLower(s))
		if most := max(len(head(word)), len(head(s))); d < best && d < max(most, 1) && 3*d <= max(most, 3) {
			best, near = d, s
		}
	}
	return near
}

func head(s string) []rune {
	out := make([]rune, 0, min(len(s), limit))
	for _, r := range s {
		if len(out) == limit {
			break
		}
		out = append(out, r)
	}
	return out
}
