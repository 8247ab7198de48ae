// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package replay

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// svg is a drawing under way. It needs nothing but itself: no scripts, no
// fonts, no style sheets from elsewhere.
type svg struct {
	b strings.Builder
}

// dark are the colours of a dark page, by those of a light one; the others do on both.
// Programs that know no style sheets draw the light one.
var dark = [...][2]string{
	{paper, "#16181c"},
	{inkText, "#e4e4e0"},
	{inkQuiet, "#a2a2a0"},
	{inkAxis, "#777"},
	{inkGrid, "#33363c"},
	{inkOriginal, "#999"},
	{inkSent, "#9fc3e6"},
	{inkEpoch, "#c49be0"},
	{inkPause, "#8fc08f"},
	{inkHarm, "#ff5c6c"},
	{"#444444", "#bbbbbb"},
	{"#0072b2", "#4aa8e0"},
}

// newSVG begins a drawing of a size that is light on a light page and dark on a dark
// one. Title and description are for those who cannot see it.
func newSVG(width, height float64, title, description string) *svg {
	s := new(svg)
	fmt.Fprintf(&s.b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" role="img" font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif" font-size="12" fill="%s">`+"\n",
		num(width), num(height), inkText)
	fmt.Fprintf(&s.b, "<title>%s</title>\n<desc>%s</desc>\n", escape(title), escape(description))
	s.b.WriteString("<style>@media(prefers-color-scheme:dark){")
	for _, c := range dark {
		fmt.Fprintf(&s.b, `[fill="%s"]{fill:%s}[stroke="%[1]s"]{stroke:%[2]s}`, c[0], c[1])
	}
	s.b.WriteString("}</style>\n")
	s.rect(0, 0, width, height, `fill="`+paper+`"`)
	return s
}

// writeTo ends the drawing.
func (s *svg) writeTo(w io.Writer) error {
	s.b.WriteString("</svg>\n")
	_, err := io.WriteString(w, s.b.String())
	return err
}

func (s *svg) rect(x, y, width, height float64, attributes string) {
	fmt.Fprintf(&s.b, `<rect x="%s" y="%s" width="%s" height="%s" %s/>`+"\n", num(x), num(y), num(width), num(height), attributes)
}

func (s *svg) line(x1, y1, x2, y2 float64, attributes string) {
	fmt.Fprintf(&s.b, `<line x1="%s" y1="%s" x2="%s" y2="%s" %s/>`+"\n", num(x1), num(y1), num(x2), num(y2), attributes)
}

func (s *svg) circle(x, y, r float64, attributes string) {
	fmt.Fprintf(&s.b, `<circle cx="%s" cy="%s" r="%s" %s/>`+"\n", num(x), num(y), num(r), attributes)
}

// text writes a text at a point, which is its "start", "middle" or "end".
func (s *svg) text(x, y float64, anchor, text, attributes string) {
	fmt.Fprintf(&s.b, `<text x="%s" y="%s" text-anchor="%s" %s>%s</text>`+"\n", num(x), num(y), anchor, attributes, escape(text))
}

// upright writes a text that reads from below and ends at a point.
func (s *svg) upright(x, y float64, text, attributes string) {
	s.text(x, y, "end", text, fmt.Sprintf(`transform="rotate(-90 %s %s)" %s`, num(x), num(y), attributes))
}

// path draws a line through points, or fills the area in them.
func (s *svg) path(points []point, closed bool, attributes string) {
	if len(points) == 0 {
		return
	}
	s.b.WriteString(`<path d="`)
	for i, p := range points {
		command := " L"
		if i == 0 {
			command = "M"
		}
		s.b.WriteString(command + num(p.x) + " " + num(p.y))
	}
	if closed {
		s.b.WriteString(" Z")
	}
	s.b.WriteString(`" ` + attributes + "/>\n")
}

// cross marks a point.
func (s *svg) cross(x, y, r float64, attributes string) {
	fmt.Fprintf(&s.b, `<path d="M%s %s L%s %s M%s %s L%s %s" %s/>`+"\n",
		num(x-r), num(y-r), num(x+r), num(y+r), num(x-r), num(y+r), num(x+r), num(y-r), attributes)
}

type point struct{ x, y float64 }

// axis maps values to places in a drawing.
type axis struct {
	min, max float64 // values
	from, to float64 // their places
	gap      float64 // between ticks
}

// newAxis spans at least the given values, to whole ticks, about as many as
// asked for.
func newAxis(low, high, from, to float64, ticks int) axis {
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
	return axis{min: math.Floor(low/gap) * gap, max: math.Ceil(high/gap) * gap, from: from, to: to, gap: gap}
}

func (a axis) at(v float64) float64 { return a.from + (v-a.min)/(a.max-a.min)*(a.to-a.from) }

// ticks returns the values at which the axis is labelled.
func (a axis) ticks() []float64 {
	var out []float64
	for i := 0; ; i++ {
		v := a.min + float64(i)*a.gap
		if v > a.max+a.gap/1000 {
			return out
		}
		out = append(out, math.Round(v*1e9)/1e9)
	}
}

// kilo writes a number of tokens in thousands or millions.
func kilo(v float64) string {
	switch abs := math.Abs(v); {
	case abs >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', -1, 64) + "M"
	case abs >= 1000:
		return strconv.FormatFloat(v/1000, 'f', -1, 64) + "k"
	default:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
}

// num writes a coordinate to a tenth of a pixel.
func num(x float64) string {
	return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64)
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder takes everything
	return b.String()
}
