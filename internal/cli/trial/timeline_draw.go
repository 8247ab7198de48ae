// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/svg"
)

// Colours of the parts of a prompt.
const (
	inkRead     = "#9ecae1"
	inkWritten  = "#e8a33d"
	inkUncached = "#c2533c"
)

// The positions of the panels of a timeline, in pixels.
const (
	drawWidth   = 1200
	panelLeft   = 70
	panelRight  = drawWidth - 24
	panelTop    = 96
	panelBottom = 470
	netTop      = 540
	netBottom   = 660
	drawHeight  = 712
)

type chart struct {
	*svg.Canvas
	t      *Timeline
	width  float64 // of one request
	tokens svg.Axis
}

// Draw draws the timeline as an SVG. For each request it shows the size of the client's context and
// of the request as sent, split into cache reads, cache writes and uncached tokens. It marks
// epochs, pauses and harmed edits, and shows the saving so far below.
func (t *Timeline) Draw(w io.Writer) error {
	r := &t.Result
	title := fmt.Sprintf("%s under %s, %s", r.Conversation, r.Profile, r.Policy)
	about := fmt.Sprintf("%d requests, cost %s, %d of %d edits harmed, history edited in %d requests",
		len(t.Steps), strings.Replace(figure.Change(r.CostRatio()), "-", "−", 1), r.Harmed, r.Edits, len(t.Epochs))
	if r.Rejected > 0 {
		about += fmt.Sprintf(", %d refused", r.Rejected)
	}
	c := &chart{Canvas: svg.New(drawWidth, drawHeight, title, about), t: t}
	c.width = float64(panelRight-panelLeft) / float64(max(1, len(t.Steps)))
	c.tokens = svg.NewAxis(0, float64(max(r.BaseMaxPrompt, r.MaxPrompt, 1)), panelBottom, panelTop, 7)
	c.Text(panelLeft, 28, "start", title, `font-size="18" font-weight="600"`)
	c.Text(panelLeft, 48, "start", about, `fill="`+svg.InkQuiet+`"`)
	c.legend()
	c.grid(c.tokens, "tokens")
	c.refusals()
	c.buckets()
	c.outlines()
	c.pauses()
	c.epochs()
	c.harms()
	c.net()
	c.requests()
	return c.Draw(w)
}

func (c *chart) x(i int) float64 { return panelLeft + float64(i)*c.width }

func (c *chart) grid(a svg.Axis, label string) {
	for _, v := range a.Ticks() {
		y := a.At(v)
		stroke := svg.InkGrid
		if v == 0 {
			stroke = svg.InkAxis
		}
		c.Line(panelLeft, y, panelRight, y, `stroke="`+stroke+`"`)
		c.Text(panelLeft-8, y+4, "end", svg.Kilo(v), `fill="`+svg.InkQuiet+`"`)
	}
	middle := (a.From + a.To) / 2
	c.Text(18, middle, "middle", label, fmt.Sprintf(`fill="%s" transform="rotate(-90 18 %s)"`, svg.InkQuiet,
		svg.Num(middle)))
}

func (c *chart) legend() {
	x, y := float64(panelLeft), 72.0
	next := func(label string) {
		c.Text(x+22, y+4, "start", label, "")
		x += 36 + 6.8*float64(len(label))
	}
	for _, bucket := range [...][2]string{
		{inkRead, "read from the cache"},
		{inkWritten, "written to it"},
		{inkUncached, "uncached"},
	} {
		c.Rect(x, y-6, 16, 12, `fill="`+bucket[0]+`"`)
		next(bucket[1])
	}
	c.Line(x, y, x+16, y, `stroke="`+svg.InkSent+`" stroke-width="1.5"`)
	next("sent")
	c.Line(x, y, x+16, y, `stroke="`+svg.InkOriginal+`" stroke-width="1.5" stroke-dasharray="4 2"`)
	next("client's own bytes")
	c.Line(x+8, y-8, x+8, y+8, `stroke="`+svg.InkEpoch+`" stroke-width="1.5"`)
	next("history edited")
	c.Cross(x+8, y, 4, `stroke="`+svg.InkHarm+`" stroke-width="2.2"`)
	next("edit harmed")
	c.wedge(x+8, y+4)
	next("pause > lifetime")
	c.Circle(x+8, y, 2.2, `fill="`+svg.InkSent+`"`)
	next("person's prompt")
}

func (c *chart) wedge(x, y float64) {
	c.Path([]svg.Point{svg.At(x, y-8), svg.At(x-4, y), svg.At(x+4, y)}, true, `fill="`+svg.InkPause+`"`)
}

func (c *chart) buckets() {
	read := func(s *Step) float64 { return float64(s.Sent.Read) }
	written := func(s *Step) float64 { return read(s) + float64(s.Sent.Write5m+s.Sent.Write1h) }
	all := func(s *Step) float64 { return float64(s.Sent.Prompt()) }
	c.band(func(*Step) float64 { return 0 }, read, inkRead)
	c.band(read, written, inkWritten)
	c.band(written, all, inkUncached)
}

func (c *chart) band(low, high func(*Step) float64, fill string) {
	var points []svg.Point
	some := false
	for i := range c.t.Steps {
		v := high(&c.t.Steps[i])
		some = some || v > low(&c.t.Steps[i])
		points = append(points, svg.At(c.x(i), c.tokens.At(v)), svg.At(c.x(i+1), c.tokens.At(v)))
	}
	for i := len(c.t.Steps) - 1; i >= 0; i-- {
		v := low(&c.t.Steps[i])
		points = append(points, svg.At(c.x(i+1), c.tokens.At(v)), svg.At(c.x(i), c.tokens.At(v)))
	}
	if some {
		c.Path(points, true, `fill="`+fill+`"`)
	}
}

func (c *chart) outlines() {
	c.steps(c.tokens, func(s *Step) float64 { return float64(s.Base.Prompt()) }, `fill="none" stroke="`+svg.InkOriginal+
		`" stroke-width="1.4" stroke-dasharray="4 2"`)
	c.steps(c.tokens, func(s *Step) float64 { return float64(s.Sent.Prompt()) }, `fill="none" stroke="`+svg.InkSent+
		`" stroke-width="1.4"`)
}

func (c *chart) steps(a svg.Axis, value func(*Step) float64, attributes string) {
	points := make([]svg.Point, 0, 2*len(c.t.Steps))
	for i := range c.t.Steps {
		y := a.At(value(&c.t.Steps[i]))
		points = append(points, svg.At(c.x(i), y), svg.At(c.x(i+1), y))
	}
	c.Path(points, false, attributes)
}

// pauses marks the pauses after which the cache is empty, and the prompts of users.
func (c *chart) pauses() {
	free := 0.0
	for i := range c.t.Steps {
		s := &c.t.Steps[i]
		if s.Prompt {
			c.Circle(c.x(i)+c.width/2, panelBottom+30, 2.2, `fill="`+svg.InkSent+`"`)
		}
		if s.Pause < c.t.cold() {
			continue
		}
		c.wedge(c.x(i), panelBottom+10)
		// Overlapping labels are left out.
		if label := pause(s.Pause); c.x(i) > free {
			c.Text(c.x(i), panelBottom+23, "middle", label, `font-size="11" fill="`+svg.InkPause+`"`)
			free = c.x(i) + 14 + 5*float64(len(label))
		}
	}
}

func (c *chart) epochs() {
	order := slices.Clone(c.t.Epochs)
	slices.SortStableFunc(order, func(a, b EpochSpan) int { return cmp.Compare(b.Decision.Removed, a.Decision.Removed) })
	var labelled []float64
	for i := range order {
		e := &order[i]
		x := c.x(e.Request)
		// Of close epochs only those that removed most have labels, and small ones have none.
		free := 100*int64(e.Decision.Removed) >= c.t.Result.MaxPrompt &&
			!slices.ContainsFunc(labelled, func(l float64) bool { return math.Abs(l-x) < 13 })
		width := "1.4"
		if !free {
			width = "0.5"
		}
		c.Line(x, panelTop, x, panelBottom, `stroke="`+svg.InkEpoch+`" stroke-width="`+width+`"`)
		c.Line(x, netTop, x, netBottom, `stroke="`+svg.InkEpoch+`" stroke-width="`+width+`" stroke-opacity="0.5"`)
		if !free {
			continue
		}
		labelled = append(labelled, x)
		c.Upright(x+11, panelTop+4, fmt.Sprintf("%s: −%s, earned %s", e.Decision.Epoch, thousands(int64(e.Decision.Removed)),
			signed(e.Earned)),
			`font-size="11" fill="`+svg.InkEpoch+`" stroke="`+svg.Paper+`" stroke-width="3" paint-order="stroke"`)
	}
}

func (c *chart) refusals() {
	for i := range c.t.Steps {
		if c.t.Steps[i].Refused {
			c.Rect(c.x(i), panelTop, c.width, panelBottom-panelTop, `fill="`+svg.InkHarm+`" fill-opacity="0.25"`)
		}
	}
}

func (c *chart) harms() {
	for i := range c.t.Steps {
		if s := &c.t.Steps[i]; s.Harmed > 0 {
			x, y := c.x(i)+c.width/2, c.tokens.At(float64(s.Sent.Prompt()))-9
			c.Cross(x, y, 4.5, `stroke="`+svg.Paper+`" stroke-width="5"`)
			c.Cross(x, y, 4.5, `stroke="`+svg.InkHarm+`" stroke-width="2.2"`)
		}
	}
}

func (c *chart) net() {
	low, high := 0.0, 0.0
	for i := range c.t.Steps {
		low, high = min(low, c.t.Steps[i].Net), max(high, c.t.Steps[i].Net)
	}
	a := svg.NewAxis(low, high, netBottom, netTop, 4)
	c.Text(panelLeft, netTop-10, "start", "saved so far, net of what had to be written again (in uncached tokens)",
		`fill="`+svg.InkQuiet+`"`)
	c.grid(a, "saved")
	net := func(s *Step) float64 { return s.Net }
	c.steps(a, net, `fill="none" stroke="`+svg.InkSent+`" stroke-width="1.6"`)
}

func (c *chart) requests() {
	a := svg.NewAxis(0, float64(len(c.t.Steps)), panelLeft, panelRight, 20)
	for _, v := range a.Ticks() {
		if i := int(v); float64(i) == v && i < len(c.t.Steps) {
			x := c.x(i) + c.width/2
			c.Line(x, netBottom, x, netBottom+5, `stroke="`+svg.InkAxis+`"`)
			c.Text(x, netBottom+18, "middle", fmt.Sprint(i), `fill="`+svg.InkQuiet+`"`)
		}
	}
	c.Text((panelLeft+panelRight)/2, netBottom+38, "middle", "request", `fill="`+svg.InkQuiet+`"`)
}
