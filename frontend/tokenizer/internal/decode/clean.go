package decode

import "strings"

// Clean has the decoder take spaces off before punctuation and English endings in the whole text, as transformers does.
// It is called before the decoder is used.
func (d *Decoder) Clean() { d.clean = true }

// spaced are what cleaner replaces, in this order.
var spaced = strings.Fields(". ? ! ,")

// endings follow the replacement of " ' ".
var endings = strings.Fields("n't 'm 's 've 're")

// clean takes spaces off.
func clean(text string) string {
	if !strings.Contains(text, " ") {
		return text
	}
	for _, mark := range spaced {
		text = strings.ReplaceAll(text, " "+mark, mark)
	}
	text = strings.ReplaceAll(text, " ' ", "'")
	for _, end := range endings {
		text = strings.ReplaceAll(text, " "+end, end)
	}
	return text
}

// cleanable are the characters of what clean replaces, and of what it puts in their place.
const cleanable = " .?!,'ntmsver"

// cleaner cleans a text that comes in parts. What clean replaces begins with a space and has cleanable characters only,
// so from the first space after the last other character on, a text waits for what follows.
type cleaner struct {
	next    sink
	waiting []byte
}

func (c *cleaner) put(text string, end bool) {
	known := len(text)
	for known > 0 && strings.IndexByte(cleanable, text[known-1]) >= 0 {
		known--
	}
	if known == 0 && len(c.waiting) > 0 {
		c.waiting = append(c.waiting, text...)
		return
	}
	if i := strings.IndexByte(text[known:], ' '); i >= 0 {
		known += i
	} else {
		known = len(text)
	}
	c.next.put(clean(string(c.waiting)+text[:known]), end)
	c.waiting = append(c.waiting[:0], text[known:]...)
}

func (c *cleaner) close() {
	c.next.put(clean(string(c.waiting)), true)
	c.waiting = c.waiting[:0]
	c.next.close()
}
