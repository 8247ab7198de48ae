// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The dimensions in which conversations grow.
const (
	byTurns = "turns"
	byBytes = "bytes"
)

// point is a length of a conversation with the cost of a request.
type point struct {
	turns, kb, ms float64
}

// curve is the cost of requests through one Caddy.
type curve struct {
	by, caddy string
	points    []point
	slope     string // ms per 1,000 turns or MB, as printed
	ratio     string // slope relative to bare's, empty for bare itself
}

var (
	errEmpty = errors.New("no table of growth")
	errSlope = errors.New("a slope of nothing that was measured")
)

// read reads the curves of both tables, in their order.
func read(in io.Reader) ([]*curve, error) {
	var all []*curve
	of := func(by, caddy string) *curve {
		for _, c := range all {
			if c.by == by && c.caddy == caddy {
				return c
			}
		}
		return nil
	}
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		cells := cellsOf(lines.Text())
		if len(cells) == 0 || cells[0] != byTurns && cells[0] != byBytes {
			continue
		}
		switch c := of(cells[0], cells[1]); len(cells) {
		case 6: // by, Caddy, turn, KB, CPU, added CPU
			p, err := pointOf(cells[2:5])
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			if c == nil {
				c = &curve{by: cells[0], caddy: cells[1]}
				all = append(all, c)
			}
			c.points = append(c.points, p)
		case 4: // by, Caddy, slope, its ratio
			if c == nil {
				return nil, fmt.Errorf("line %d: %q: %w", n, cells[1], errSlope)
			}
			c.slope, c.ratio = cells[2], cells[3]
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errEmpty
	}
	return all, nil
}

// cellsOf returns the cells of a Markdown row with at least two cells, else nil.
func cellsOf(line string) []string {
	inner, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
	if !ok || !strings.HasSuffix(inner, "|") {
		return nil
	}
	cells := strings.Split(strings.TrimSuffix(inner, "|"), "|")
	if len(cells) < 2 {
		return nil
	}
	for i, c := range cells {
		cells[i] = strings.TrimSpace(c)
	}
	return cells
}

// errScale says that a number is not positive, and so not on a logarithmic scale.
var errScale = errors.New("not above zero")

func pointOf(cells []string) (point, error) {
	var v [3]float64
	for i, c := range cells {
		f, err := strconv.ParseFloat(c, 64)
		if err != nil {
			return point{}, fmt.Errorf("number %q: %w", c, err)
		}
		if !(f > 0) {
			return point{}, fmt.Errorf("number %q: %w", c, errScale)
		}
		v[i] = f
	}
	return point{v[0], v[1], v[2]}, nil
}
