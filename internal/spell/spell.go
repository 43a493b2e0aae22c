// Package spell finds the existing name that is nearest to an unknown one.
//
// It imports the standard library only. The work is bounded, since it reads only the first 80 characters of each word.
// Equal words give equal results.
package spell

// limit is how many characters of a word count. Names from files may be of any length.
const limit = 80

// Distance counts the insertions, deletions and replacements of characters that lead from one word to the other.
func Distance(a, b string) int {
	x, y := head(a), head(b)
	row := make([]int, len(y)+1) // distances of x[:i] from all y[:j]
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			replaced := diagonal
			if x[i] != y[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
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
