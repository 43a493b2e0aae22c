// Package docs has no code. Its tests type the commands and programs of the pages in this folder, of README.md and of
// CONTRIBUTING.md, and compare what they print with the pages.
package docs
