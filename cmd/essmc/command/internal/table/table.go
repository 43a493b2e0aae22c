// Package table prints tables as aligned columns, without borders.
//
// It imports go-pretty. Equal content gives equal text, without spaces at the ends of lines.
package table

import (
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Column is one column of a table.
type Column struct {
	Title string
	Right bool // aligned to the right, for numbers
	Width int  // the largest width; longer text is wrapped; 0: unlimited
}

// Print writes a table, indented by two spaces. Empty columns are omitted.
func Print(w io.Writer, columns []Column, rows [][]string) error {
	var keep []int
	for i := range columns {
		for _, r := range rows {
			if i < len(r) && r[i] != "" {
				keep = append(keep, i)
				break
			}
		}
	}
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "  ", ""
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	var header table.Row
	var configs []table.ColumnConfig
	for at, i := range keep {
		c := columns[i]
		header = append(header, c.Title)
		config := table.ColumnConfig{Number: at + 1, WidthMax: c.Width, WidthMaxEnforcer: text.WrapSoft,
			VAlign: text.VAlignTop}
		if c.Right {
			config.Align, config.AlignHeader = text.AlignRight, text.AlignRight
		}
		configs = append(configs, config)
	}
	t.SetColumnConfigs(configs)
	t.AppendHeader(header)
	for _, r := range rows {
		var row table.Row
		for _, i := range keep {
			cell := ""
			if i < len(r) {
				cell = r[i]
			}
			row = append(row, cell)
		}
		t.AppendRow(row)
	}
	_, err := io.WriteString(w, strings.TrimRight(t.Render(), "\n")+"\n")
	return err
}
