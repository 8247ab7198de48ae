// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/svg"
)

// The size of a drawing, and of the margins around its plot.
const (
	height                  = 260.0
	left, right, top, under = 60.0, 10.0, 24.0, 28.0
)

// widths are the two widths of each drawing.
var widths = [...]struct {
	class string
	wide  float64
}{{"wide", 900}, {"narrow", 360}}

// inWidths returns the drawings of draw in both widths.
func inWidths(draw func(class string, wide float64) *drawing) (all template.HTML) {
	// The page shows the one that fits, because shrunk text is illegible.
	for _, w := range widths {
		all += draw(w.class, w.wide).end()
	}
	return all
}

// drawing is an SVG under construction. Its colours come from the page's style.
type drawing struct {
	strings.Builder
	wide float64
}

func newDrawing(title, class string, wide, height float64) *drawing {
	d := &drawing{wide: wide}
	fmt.Fprintf(d, `<svg class="%s" viewBox="0 0 %g %.0f" role="img" aria-label="%s">`, class, wide, height,
		template.HTMLEscapeString(title))
	return d
}

func (d *drawing) slots(n int) (middle func(int) float64, each float64) {
	each = (d.wide - left - right) / float64(max(n, 1))
	return func(i int) float64 { return left + each*(float64(i)+0.5) }, each
}

func (d *drawing) end() template.HTML {
	fmt.Fprint(d, "</svg>")
	return template.HTML(d.String()) //nolint:gosec // all texts in it were escaped
}

func (d *drawing) text(x, y float64, anchor, class, text string) {
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`, x, y, anchor, class,
		template.HTMLEscapeString(text))
}

func (d *drawing) rect(x, y, w, h float64, class, title string) {
	fmt.Fprintf(d, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="%s"><title>%s</title></rect>`, x, y,
		max(w, 0), max(h, 0), class, template.HTMLEscapeString(title))
}

// legend names the two sides: as billed, and the clients' own bytes.
func (d *drawing) legend() {
	d.rect(left, 4, 10, 10, "actual", "")
	d.text(left+15, 13, "start", "", "as billed")
	d.rect(left+90, 4, 10, 10, "own", "")
	d.text(left+105, 13, "start", "", "the clients' own bytes")
}

// scale draws the grid lines of the plot, and returns the function from values to coordinates.
func (d *drawing) scale(highest float64, label func(float64) string) func(float64) float64 {
	a := svg.NewAxis(0, highest, height-under, top, 4)
	for _, v := range a.Ticks() {
		fmt.Fprintf(d, `<line x1="%g" x2="%g" y1="%.1f" y2="%.1f" class="rule"/>`, left, d.wide-right, a.At(v), a.At(v))
		d.text(left-6, a.At(v)+4, "end", "soft", label(v))
	}
	return a.At
}

func axis(v float64) string {
	if v != 0 && v < 1 {
		return "$" + strconv.FormatFloat(v, 'f', -1, 32)
	}
	return "$" + humanize.FormatFloat("#,###.", v)
}

// labels writes days below the plot, as many as fit.
func (s *Summary) labels(d *drawing, x func(int) float64) {
	every := max(1, int(math.Ceil(float64(len(s.Days))*75/d.wide)))
	for i := 0; i < len(s.Days); i += every {
		d.text(x(i), height-8, "middle", "soft", strings.TrimPrefix(s.Days[i].Name, s.Until.Format("2006-")))
	}
}

func (s *Summary) costs(class string, wide float64) *drawing {
	d := newDrawing("Cost by day", class, wide, height)
	d.legend()
	actual, unedited := (*Sum).Actual, (*Sum).Unedited
	if s.Total.Priced() { // days without any price would be in tokens
		actual, unedited = func(g *Sum) float64 { return g.USD }, func(g *Sum) float64 { return g.ClientUSD }
	}
	highest := 0.0
	for _, g := range s.Days {
		highest = max(highest, actual(g), unedited(g))
	}
	at := d.scale(highest, func(v float64) string {
		if s.Total.Priced() {
			return axis(v)
		}
		return figure.Tokens(v)
	})
	x, slot := d.slots(len(s.Days))
	bar := min(slot*0.38, 40)
	for i, g := range s.Days {
		for j, v := range [...]float64{unedited(g), actual(g)} {
			class, from := [...]string{"own", "actual"}[j], [...]float64{-bar, 0}[j]
			d.rect(x(i)+from, at(v), bar, height-under-at(v), class, fmt.Sprintf("%s: %s", g.Name, money(s.Total, v)))
		}
	}
	s.labels(d, x)
	return d
}

func (s *Summary) reads(class string, wide float64) *drawing {
	d := newDrawing("Share of prompts read from a cache, by day", class, wide, height)
	d.legend()
	at := d.scale(1, func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) })
	x, _ := d.slots(len(s.Days))
	for _, line := range []struct {
		class string
		value func(*Sum) float64
	}{{"own", (*Sum).ClientReadShare}, {"actual", (*Sum).ReadShare}} {
		fmt.Fprintf(d, `<polyline class="line %s" points="`, line.class)
		for i, g := range s.Days {
			fmt.Fprintf(d, "%.1f,%.1f ", x(i), at(line.value(g)))
		}
		fmt.Fprint(d, `"/>`)
		for i, g := range s.Days {
			fmt.Fprintf(d, `<circle cx="%.1f" cy="%.1f" r="3" class="%s"><title>%s: %s</title></circle>`, x(i),
				at(line.value(g)), line.class, template.HTMLEscapeString(g.Name), figure.Percent(line.value(g)))
		}
	}
	s.labels(d, x)
	return d
}

// bars draws a bar for each part, by its saving or the number of its turns.
func (s *Summary) bars(title string, parts []Part, count bool, class string, wide float64) *drawing {
	const row = 26.0
	names := min(200, wide/3)
	highest, lowest := 0.0, 0.0
	value := func(p *Part) float64 {
		if count {
			return float64(p.Turns)
		}
		if s.Total.Priced() {
			return p.USD
		}
		return p.Units
	}
	label := func(v float64) string {
		if count {
			return figure.Tokens(v)
		}
		return money(s.Total, v)
	}
	for i := range parts {
		highest, lowest = max(highest, value(&parts[i])), min(lowest, value(&parts[i]))
	}
	d := newDrawing(title, class, wide, row*float64(len(parts))+8)
	under := 0.0 // room for the labels of losses, left of their bars
	if lowest < 0 {
		under = 60
	}
	room := wide - names - under - 80
	span := max(highest-lowest, 1e-9)
	zero := names + under + room*(-lowest/span)
	for i := range parts {
		p, y := &parts[i], row*float64(i)+4
		v := value(p)
		d.text(names-8, y+15, "end", "", p.Name)
		length := math.Abs(v) / span * room
		class, x, end, anchor := "good", zero, zero+length+6, "start"
		if count {
			class = "own"
		} else if v < 0 {
			class, x, end, anchor = "bad", zero-length, zero-length-6, "end"
		}
		d.rect(x, y+2, length, row-8, class, fmt.Sprintf("%s: %s in %d turns", p.Name, label(v), p.Turns))
		d.text(end, y+15, anchor, "soft", label(v))
	}
	return d
}
