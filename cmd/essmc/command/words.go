package command

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
)

// plural returns "1 node", "2 nodes".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return grouped(int64(n)) + " " + what + "s"
}

// grouped returns a number with a comma between thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// byteCount returns a size in binary units.
func byteCount(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/(1<<10), 0
	for v >= 1024 && unit < 4 {
		v, unit = v/1024, unit+1
	}
	return strconv.FormatFloat(v, 'f', digits(v), 64) + " " + []string{"KiB", "MiB", "GiB", "TiB", "PiB"}[unit]
}

// duration returns a time with three digits.
func duration(d time.Duration) string {
	switch ns := float64(d); {
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d)
	case d < time.Millisecond:
		return strconv.FormatFloat(ns/1e3, 'f', digits(ns/1e3), 64) + " µs"
	case d < time.Second:
		return strconv.FormatFloat(ns/1e6, 'f', digits(ns/1e6), 64) + " ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', digits(d.Seconds()), 64) + " s"
}

// digits returns the number of decimals such that v has about three digits.
func digits(v float64) int {
	switch {
	case v >= 100:
		return 0
	case v >= 10:
		return 1
	}
	return 2
}

// wrap breaks a text between words into lines of at most width characters.
func wrap(s string, width int) string {
	lines := strings.Split(text.WrapSoft(s, width), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ") // WrapSoft pads lines
	}
	return strings.Join(lines, "\n")
}

// indent indents each line.
func indent(s, by string) string {
	return by + strings.ReplaceAll(s, "\n", "\n"+by)
}
