// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/conversation"
)

// stage is a point in a conversation for measuring its growth.
type stage struct {
	by    string // the growing dimension, with the other fixed: turns or bytes
	size  conversation.Size
	bytes int // body size; for turns, enough room for them
	turn  int // 0: the turn with this body size
}

// stages returns the points: up to two thousand turns of a few words, and up to 31 MiB in a hundred
// turns or fewer.
func stages() (all []stage) {
	for _, turn := range []int{1, 10, 30, 100, 300, 1000, 2000} {
		all = append(all, stage{"turns", conversation.Small, turn*500 + 10<<10, turn})
	}
	for _, bytes := range []int{2 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20, 31 << 20} {
		all = append(all, stage{
			"bytes",
			conversation.Size{System: bytes / 10, Tools: bytes / 10, Result: bytes / 100},
			bytes,
			0,
		})
	}
	return all
}

func (s *stage) name() string {
	if s.turn > 0 {
		return fmt.Sprintf("growth, %d turns", s.turn)
	}
	return fmt.Sprintf("growth, %d KB", s.bytes>>10)
}

// growth measures the cost of known requests by the length of their conversation, in turns and in
// bytes, and its slope. ./lab/growth draws its tables.
func (b *bench) growth(ctx context.Context) error {
	heading("Cost of a known request by the length of its conversation", "by", "Caddy", "turn", "KB", "CPU, ms",
		"added CPU, ms")
	lines := map[string][]lines{}
	for _, s := range stages() {
		if !strings.Contains(s.name(), b.traffic) {
			continue
		}
		turn, bytes, sums, err := b.at(ctx, &s)
		if err != nil {
			return err
		}
		if lines[s.by] == nil {
			lines[s.by] = newLines(len(b.targets), b.rounds)
		}
		x := float64(bytes) / (1 << 20)
		if s.by == "turns" {
			x = float64(turn) / 1000
		}
		for j, t := range b.targets {
			added := ""
			if j > 0 {
				added = sums[j].added(&sums[0])
			}
			row(s.by, t.name, strconv.Itoa(turn), fmt.Sprintf("%.1f", float64(bytes)/1024), ms(median(sums[j].known)), added)
			lines[s.by][j].add(x, inMS(sums[j].known))
		}
	}
	heading("How steeply it rises", "by", "Caddy", "ms for each 1,000 turns or MB", "ratio to bare")
	for _, by := range []string{"turns", "bytes"} {
		for j, l := range lines[by] {
			if l[0].n < 2 {
				break // -traffic left out too many points
			}
			ratio := ""
			if j > 0 {
				ratio = within(ratios(l.slopes(), lines[by][0].slopes()))
			}
			row(by, b.targets[j].name, spread("%.3f", l.slopes()), ratio)
		}
	}
	return nil
}

// at measures known requests at a stage of their conversations.
func (b *bench) at(ctx context.Context, s *stage) (turn, bytes int, sums []costs, err error) {
	l := &load{name: s.name(), shape: conversation.Claude, size: s.size, to: s.bytes}
	tape := conversation.NewTape(l.shape, l.size, l.to)
	if turn = s.turn; turn == 0 {
		turn = tape.TurnsOf(s.bytes)
	}
	_, bytes = tape.Body(l.name, turn, true)
	l.requests = min(max(128<<20/bytes, 4*side), 800)
	from := turn - min(max(turn/10, 1), max(l.requests/side, 1), 20)
	sums, err = b.costs(ctx, l, b.targets, func(k *talk) { k.from, k.to, k.turns = from, turn, turn })
	return turn, bytes, sums, err
}

// lines are the fitted lines of each round.
type lines []line

func newLines(n, rounds int) []lines {
	all := make([]lines, n)
	for i := range all {
		all[i] = make(lines, rounds)
	}
	return all
}

// add adds a point to each line.
func (l lines) add(x float64, ys []float64) {
	for i, y := range ys {
		l[i].add(x, y)
	}
}

func (l lines) slopes() []float64 {
	out := make([]float64, len(l))
	for i := range l {
		out[i] = l[i].slope()
	}
	return out
}

// line is a least-squares fit of a straight line.
type line struct{ n, x, y, xx, xy float64 }

func (l *line) add(x, y float64) {
	l.n, l.x, l.y, l.xx, l.xy = l.n+1, l.x+x, l.y+y, l.xx+x*x, l.xy+x*y
}

func (l *line) slope() float64 { return (l.n*l.xy - l.x*l.y) / (l.n*l.xx - l.x*l.x) }
