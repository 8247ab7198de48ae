// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"math"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/svg"
)

// inks are the colours of the Caddys, bare first.
var inks = [...]string{svg.InkOriginal, "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b"}

// Places in the drawing, in pixels.
const (
	width      = 1000
	plotWidth  = 390
	plotLeft   = 76  // of the first plot
	plotApart  = 480 // from one plot's left edge to the next
	plotHeight = 320
	entryTop   = 78 // of the first Caddy's entry
	entryGap   = 34
)

const (
	title = "Cost of a known request"
	about = "processor time of the Caddy process for one request of a conversation that it knows; both axes are " +
		"logarithmic"
)

// draw draws the curves: one plot by turns and one by body size, each with the slopes of its
// curves.
func draw(out io.Writer, all []*curve) error {
	var most int
	plots := [...]*plot{
		{by: byTurns, title: "by turns, of a few words each", axis: "turns of the conversation", unit: "per 1,000 turns"},
		{by: byBytes, title: "by size, in 4 to 80 turns", axis: "size of the request's body", unit: "per MB"},
	}
	for _, p := range plots {
		for _, c := range all {
			if c.by == p.by {
				p.curves = append(p.curves, c)
			}
		}
		most = max(most, len(p.curves))
	}
	top := float64(entryTop + entryGap*most + 16)
	canvas := svg.New(width, top+plotHeight+60, title, about)
	canvas.Text(plotLeft, 28, "start", title, `font-size="18" font-weight="600"`)
	canvas.Text(plotLeft, 48, "start", about, quiet)
	for i, p := range plots {
		if len(p.curves) > 0 {
			p.Canvas, p.left, p.top = canvas, float64(plotLeft+i*plotApart), top
			p.draw()
		}
	}
	return canvas.Draw(out)
}

const quiet = `fill="` + svg.InkQuiet + `"`

// plot is one plot under construction.
type plot struct {
	*svg.Canvas
	by, title, axis, unit string
	curves                []*curve
	left, top             float64
	x, y                  scale
}

func (p *plot) draw() {
	p.scale()
	p.axes()
	p.Text(p.left, entryTop, "start", p.title, `font-weight="600"`)
	for i, c := range p.curves {
		ink := inks[i%len(inks)]
		places := make([]svg.Point, len(c.points))
		for j, at := range c.points {
			places[j] = svg.At(p.x.at(p.length(at)), p.y.at(at.ms))
		}
		p.Path(places, false, `fill="none" stroke="`+ink+`" stroke-width="2"`)
		for _, at := range places {
			p.Circle(at.X, at.Y, 3.4, `fill="`+svg.Paper+`" stroke="`+ink+`" stroke-width="1.8"`)
		}
		p.entry(c, ink, float64(entryTop+20+entryGap*i))
	}
}

// entry draws a Caddy's entry in the legend, with its slope.
func (p *plot) entry(c *curve, ink string, y float64) {
	p.Line(p.left, y-4, p.left+18, y-4, `stroke="`+ink+`" stroke-width="2.5"`)
	p.Text(p.left+24, y, "start", c.caddy, `font-weight="600"`)
	if c.slope == "" {
		return
	}
	steep := fmt.Sprintf("rises by %s ms %s", c.slope, p.unit)
	if c.ratio != "" {
		steep += ", " + c.ratio + " × bare"
	}
	p.Text(p.left+24, y+14, "start", steep, `font-size="11" `+quiet)
}

// length returns a point's value on the plot's x axis.
func (p *plot) length(at point) float64 {
	if p.by == byTurns {
		return at.turns
	}
	return at.kb
}

// scale sets the axes to contain all points.
func (p *plot) scale() {
	short, long, cheap, dear := math.Inf(1), 0.0, math.Inf(1), 0.0
	for _, c := range p.curves {
		for _, at := range c.points {
			short, long = min(short, p.length(at)), max(long, p.length(at))
			cheap, dear = min(cheap, at.ms), max(dear, at.ms)
		}
	}
	p.x = newScale(short, long, p.left, p.left+plotWidth)
	p.y = newScale(cheap, dear, p.top+plotHeight, p.top)
}

func (p *plot) axes() {
	bottom, right := p.top+plotHeight, p.left+plotWidth
	for _, v := range p.y.steps() {
		y := p.y.at(v)
		p.Line(p.left, y, right, y, `stroke="`+svg.InkGrid+`"`)
		p.Text(p.left-8, y+4, "end", plain(v)+" ms", quiet)
	}
	ticks, label := p.x.steps(), plain
	if p.by == byBytes {
		ticks, label = p.x.ticks(sizes), size
	}
	for _, v := range ticks {
		x := p.x.at(v)
		p.Line(x, p.top, x, bottom, `stroke="`+svg.InkGrid+`"`)
		p.Text(x, bottom+18, "middle", label(v), quiet)
	}
	p.Line(p.left, bottom, right, bottom, `stroke="`+svg.InkAxis+`"`)
	p.Line(p.left, p.top, p.left, bottom, `stroke="`+svg.InkAxis+`"`)
	p.Text((p.left+right)/2, bottom+42, "middle", p.axis, quiet)
	x, middle := p.left-58, (p.top+bottom)/2
	p.Text(x, middle, "middle", "processor time of a request", fmt.Sprintf(`%s transform="rotate(-90 %s %s)"`, quiet,
		svg.Num(x), svg.Num(middle)))
}
