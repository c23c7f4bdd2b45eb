package htmlreport

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
)

// Page is a report.
type Page struct {
	Title, Lead string
	Sections    []Section
	Foot        string
}

// Section is a part of it. Without Blocks it is left out.
type Section struct {
	Title, Lead string
	Blocks      []Block
}

// Block is one of Facts, *Table, *List and *Figure.
type Block interface {
	name() string // of its template
}

// Mark says how a cell or a list is to be taken.
type Mark string

// The marks. A text says the same: nothing is told by colour alone.
const (
	Plain Mark = ""
	Good  Mark = "good"
	Bad   Mark = "bad"
	Muted Mark = "muted"
)

// Facts are names and values.
type Facts []Fact

// Fact is one of them.
type Fact struct {
	Name, Value string
	Mark        Mark
}

// Table is rows of cells. A row of one cell, where there are more columns, is a heading of the rows below it.
type Table struct {
	Title string
	Head  []string
	Rows  [][]Cell
	// Folded: the table is shown when the reader asks for it; the text is what is shown before.
	Folded string
}

// Cell of a table.
type Cell struct {
	Text   string
	Number bool // aligned to the right
	Mark   Mark
	Code   bool // a name, or a place in a file: broken anywhere
}

// Text is a cell of words.
func Text(s string) Cell { return Cell{Text: s} }

// Number is a cell of something that is counted or measured, as it is shown.
func Number(s string) Cell { return Cell{Text: s, Number: true} }

// Code is a cell with a name.
func Code(s string) Cell { return Cell{Text: s, Code: true} }

// List is sentences.
type List struct {
	Mark  Mark
	Items []string
}

// Figure is a chart and, beside it, what it shows in numbers.
type Figure struct {
	Title, Note string
	Chart       Chart
	Table       *Table // nil: none
}

func (Facts) name() string   { return "facts" }
func (*Table) name() string  { return "table" }
func (*List) name() string   { return "list" }
func (*Figure) name() string { return "figure" }

//go:embed page.html
var pageText string

//go:embed style.css
var style string

var page *template.Template

func init() { // block refers to it
	page = template.Must(template.New("page").Funcs(template.FuncMap{
		"css":     func() template.CSS { return template.CSS(style) },
		"clean":   Clean,
		"show":    block,
		"draw":    drawing,
		"class":   Cell.class,
		"numeric": numeric,
		"spans":   spans,
		"id":      func(i int) int { return i + 1 },
	}).Parse(pageText))
}

func (c Cell) class() string {
	class := string(c.Mark)
	if c.Number {
		class += " n"
	}
	if c.Code {
		class += " c"
	}
	return class
}

// spans tells whether a row is a heading of those below it.
func spans(t *Table, row []Cell) bool { return len(row) == 1 && len(t.Head) > 1 }

// numeric tells whether a column has numbers.
func numeric(t *Table, column int) bool {
	for _, row := range t.Rows {
		if !spans(t, row) && column < len(row) {
			return row[column].Number
		}
	}
	return false
}

// block renders one block.
func block(b Block) (template.HTML, error) {
	var out bytes.Buffer
	err := page.ExecuteTemplate(&out, b.name(), b)
	return template.HTML(out.String()), err
}

// Write writes the page to w.
func (p *Page) Write(w io.Writer) error {
	shown := *p
	shown.Sections = nil
	for _, s := range p.Sections {
		if len(s.Blocks) > 0 {
			shown.Sections = append(shown.Sections, s)
		}
	}
	var out bytes.Buffer // what fails leaves no half of a page
	if err := page.Execute(&out, &shown); err != nil {
		return err
	}
	_, err := w.Write(out.Bytes())
	return err
}
