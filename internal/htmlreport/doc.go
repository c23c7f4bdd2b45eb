// Package htmlreport writes reports for people: one HTML file that loads nothing and runs nothing, with tables and charts, for a wide screen and a phone, light and dark.
//
// # Basics
//
// A Page is sections of blocks: Facts, Table, List, Figure. A Figure is a chart and the table of what it shows, side by side where there is room. Charts are
// Bars, Ranges (of latencies, on a logarithmic axis) and Lines. Each is drawn twice as SVG by gonum.org/v1/plot, for wide and for narrow screens, and the style sheet shows one
// of them. Colours in the drawings are variables of the style sheet, which has them for light and for dark.
//
// What is written depends on the Page alone: the same page gives the same bytes.
//
// # Caveats
//
// Texts are escaped, and characters that cannot be seen, or that turn the direction of what follows, are written as \u codes (Clean): topic names
// come from clients. The page forbids the browser to load anything.
package htmlreport
