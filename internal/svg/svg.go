// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package svg draws the results of a replay.
package svg

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Colours that colour-blind readers can distinguish, too.
const (
	InkOriginal = "#777"
	InkSent     = "#1b3b5a"
	InkEpoch    = "#7b3fa0"
	InkHarm     = "#d0021b"
	InkPause    = "#4a7a4a"
	InkGrid     = "#e4e4de"
	InkAxis     = "#999"
	InkText     = "#222"
	InkQuiet    = "#666"
	Paper       = "#fdfdfb"
)

// Canvas is a drawing in progress. It is self-contained: no scripts, fonts or external style sheets.
type Canvas struct {
	b strings.Builder
}

// dark maps light-mode colours to dark-mode ones; all others fit both.
var dark = [...][2]string{
	{Paper, "#16181c"},
	{InkText, "#e4e4e0"},
	{InkQuiet, "#a2a2a0"},
	{InkAxis, "#777"},
	{InkGrid, "#33363c"},
	{InkOriginal, "#999"},
	{InkSent, "#9fc3e6"},
	{InkEpoch, "#c49be0"},
	{InkPause, "#8fc08f"},
	{InkHarm, "#ff5c6c"},
	{"#444444", "#bbbbbb"},
	{"#0072b2", "#4aa8e0"},
}

// New begins a drawing that follows the page's light or dark mode. Title and description are for
// screen readers.
func New(width, height float64, title, description string) *Canvas {
	s := new(Canvas)
	fmt.Fprintf(&s.b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" role="img" font-family="system-ui, -apple-system, `+
			`'Segoe UI', 'DejaVu Sans', sans-serif" font-size="12" fill="%s">`+"\n",
		Num(width), Num(height), InkText)
	fmt.Fprintf(&s.b, "<title>%s</title>\n<desc>%s</desc>\n", escape(title), escape(description))
	s.b.WriteString("<style>@media(prefers-color-scheme:dark){")
	// Programs without style sheets show light mode.
	for _, c := range dark {
		fmt.Fprintf(&s.b, `[fill="%s"]{fill:%s}[stroke="%[1]s"]{stroke:%[2]s}`, c[0], c[1])
	}
	s.b.WriteString("}</style>\n")
	s.Rect(0, 0, width, height, `fill="`+Paper+`"`)
	return s
}

// Draw ends the drawing and writes it.
func (s *Canvas) Draw(w io.Writer) error {
	s.b.WriteString("</svg>\n")
	_, err := io.WriteString(w, s.b.String())
	return err
}

// Rect draws a rectangle by its upper left corner.
func (s *Canvas) Rect(x, y, width, height float64, attributes string) {
	fmt.Fprintf(&s.b, `<rect x="%s" y="%s" width="%s" height="%s" %s/>`+"\n", Num(x), Num(y), Num(width), Num(height),
		attributes)
}

// Line draws a straight line.
func (s *Canvas) Line(x1, y1, x2, y2 float64, attributes string) {
	fmt.Fprintf(&s.b, `<line x1="%s" y1="%s" x2="%s" y2="%s" %s/>`+"\n", Num(x1), Num(y1), Num(x2), Num(y2), attributes)
}

// Circle draws a circle around a point.
func (s *Canvas) Circle(x, y, r float64, attributes string) {
	fmt.Fprintf(&s.b, `<circle cx="%s" cy="%s" r="%s" %s/>`+"\n", Num(x), Num(y), Num(r), attributes)
}

// Text writes a text at a point. anchor is "start", "middle" or "end".
func (s *Canvas) Text(x, y float64, anchor, text, attributes string) {
	fmt.Fprintf(&s.b, `<text x="%s" y="%s" text-anchor="%s" %s>%s</text>`+"\n", Num(x), Num(y), anchor, attributes,
		escape(text))
}

// Upright writes a vertical text that reads upwards and ends at a point.
func (s *Canvas) Upright(x, y float64, text, attributes string) {
	s.Text(x, y, "end", text, fmt.Sprintf(`transform="rotate(-90 %s %s)" %s`, Num(x), Num(y), attributes))
}

// Path draws a line through points, or fills the area within them.
func (s *Canvas) Path(points []Point, closed bool, attributes string) {
	if len(points) == 0 {
		return
	}
	s.b.WriteString(`<path d="`)
	for i, p := range points {
		command := " L"
		if i == 0 {
			command = "M"
		}
		s.b.WriteString(command + Num(p.X) + " " + Num(p.Y))
	}
	if closed {
		s.b.WriteString(" Z")
	}
	s.b.WriteString(`" ` + attributes + "/>\n")
}

// Cross marks a point.
func (s *Canvas) Cross(x, y, r float64, attributes string) {
	fmt.Fprintf(&s.b, `<path d="M%s %s L%s %s M%s %s L%s %s" %s/>`+"\n",
		Num(x-r), Num(y-r), Num(x+r), Num(y+r), Num(x-r), Num(y+r), Num(x+r), Num(y-r), attributes)
}

// Point is a position in a drawing, in pixels from its upper left corner.
type Point struct{ X, Y float64 }

// At returns a point.
func At(x, y float64) Point { return Point{x, y} }

// Axis maps values to positions in a drawing.
type Axis struct {
	min, max float64 // values
	From, To float64 // their positions
	gap      float64 // between ticks
}

// NewAxis returns an axis that spans at least the given values, rounded to whole ticks. It has
// about the given number of ticks.
func NewAxis(low, high, from, to float64, ticks int) Axis {
	if high <= low {
		high = low + 1
	}
	gap := math.Pow(10, math.Floor(math.Log10((high-low)/float64(ticks))))
	for _, m := range []float64{1, 2, 5, 10} {
		if (high-low)/(gap*m) <= float64(ticks) {
			gap *= m
			break
		}
	}
	return Axis{min: math.Floor(low/gap) * gap, max: math.Ceil(high/gap) * gap, From: from, To: to, gap: gap}
}

// At returns the position of a value.
func (a Axis) At(v float64) float64 { return a.From + (v-a.min)/(a.max-a.min)*(a.To-a.From) }

// Ticks returns the values at which the axis is labelled.
func (a Axis) Ticks() []float64 {
	var out []float64
	for i := 0; ; i++ {
		v := a.min + float64(i)*a.gap
		// The sum of gaps may exceed the maximum by a rounding error.
		if v > a.max+a.gap/1000 {
			return out
		}
		out = append(out, math.Round(v*1e9)/1e9)
	}
}

// Kilo formats a number of tokens in thousands or millions.
func Kilo(v float64) string {
	switch abs := math.Abs(v); {
	case abs >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', -1, 64) + "M"
	case abs >= 1000:
		return strconv.FormatFloat(v/1000, 'f', -1, 64) + "k"
	default:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
}

// Num formats a coordinate to a tenth of a pixel.
func Num(x float64) string {
	return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64)
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder never fails
	return b.String()
}
