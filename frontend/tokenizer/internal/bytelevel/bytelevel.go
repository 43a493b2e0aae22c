// Package bytelevel has the characters that stand for bytes in byte-level vocabularies, as GPT-2 has them: the byte's
// own where that can be printed, and others from U+0100 on, in order.
package bytelevel

var shown = func() (all [256]rune) {
	next := rune(256)
	for i := range all {
		if i >= '!' && i <= '~' || i >= 0xa1 && i <= 0xac || i >= 0xae {
			all[i] = rune(i)
		} else {
			all[i] = next
			next++
		}
	}
	return all
}()

// limit is one more than the largest character that stands for a byte.
const limit = 0x144

var byteOf = func() (all [limit]int16) {
	for i := range all {
		all[i] = -1
	}
	for i, r := range shown {
		all[r] = int16(i)
	}
	return all
}()

// Shown returns the character that stands for a byte.
func Shown(b byte) rune { return shown[b] }

// ByteOf returns the byte that a character stands for; false if it stands for none.
func ByteOf(r rune) (byte, bool) {
	if r < 0 || r >= limit || byteOf[r] < 0 {
		return 0, false
	}
	return byte(byteOf[r]), true
}
