// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strconv"
)

// scale maps values to places, by their logarithms.
type scale struct {
	low, high float64 // values
	from, to  float64 // their places
}

// newScale spans values with a little room at both ends.
func newScale(low, high, from, to float64) scale {
	room := math.Pow(max(high/low, 2), 0.04)
	return scale{low / room, high * room, from, to}
}

func (s scale) at(v float64) float64 {
	return s.from + math.Log(v/s.low)/math.Log(s.high/s.low)*(s.to-s.from)
}

// ticks returns the values of a list that are on the scale.
func (s scale) ticks(of []float64) (on []float64) {
	for _, v := range of {
		if s.low <= v && v <= s.high {
			on = append(on, v)
		}
	}
	return on
}

// steps returns 1, 2 and 5 of each decade, 1 alone of scales that span many, and more of
// those that span one.
func (s scale) steps() []float64 {
	factors := []float64{1, 2, 5}
	switch span := s.high / s.low; {
	case span > 2000:
		factors = []float64{1}
	case span < 15:
		factors = []float64{1, 1.5, 2, 3, 5, 7}
	}
	var all []float64
	for e := math.Floor(math.Log10(s.low)); e <= math.Log10(s.high); e++ {
		for _, f := range factors {
			// Read back from its digits, or 0.2 would be printed as 0.2 and a little.
			v, _ := strconv.ParseFloat(strconv.FormatFloat(f*math.Pow(10, e), 'g', 3, 64), 64)
			all = append(all, v)
		}
	}
	return s.ticks(all)
}

// sizes are those in KB at which an axis of bytes is labelled.
var sizes = []float64{1, 10, 100, 1 << 10, 10 << 10, 100 << 10}

// size writes KB, from 1,024 on as MB.
func size(kb float64) string {
	if kb >= 1<<10 {
		return plain(kb/(1<<10)) + " MB"
	}
	return plain(kb) + " KB"
}

// plain writes a number with commas between its thousands.
func plain(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if v < 1000 || v != math.Trunc(v) {
		return text
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
