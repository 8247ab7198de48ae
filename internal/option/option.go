// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package option parses options of a Caddyfile. It rejects unknown and duplicate options, and
// reports every mistake with its file and line.
package option

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Option parses the rest of an option after its name.
type Option func(*caddyfile.Dispenser) error

// Options are the options of a block, by name.
type Options map[string]Option

// repeatable are the options that may occur several times in a block, some only in blocks of a name.
var repeatable = map[string]bool{
	"model": true, "body": true, "user": true, "budget": true, "group": true, "project": true, "user key": true,
}

// Block parses a block, if there is one. Its error has the mistakes of all options.
func Block(d *caddyfile.Dispenser, of string, known Options) error {
	seen := make(map[string]bool, len(known))
	var mistakes error
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		// An option that fails may stop anywhere in its segment, so each has a dispenser of its own.
		segment := d.NewFromNextSegment()
		segment.Next()
		parse, ok := known[name]
		var err error
		switch {
		case !ok:
			err = segment.Errf("unrecognized option %q of %s%s", name, of, suggestion(name, of, known))
		case seen[name] && !repeatable[name] && !repeatable[of+" "+name]:
			err = segment.Errf("duplicate option %q of %s", name, of)
		default:
			if err = parse(segment); err == nil && segment.Next() {
				err = segment.Errf("unexpected %q in option %q of %s", segment.Val(), name, of)
			}
		}
		seen[name] = true
		mistakes = join(mistakes, err)
	}
	return mistakes
}

// join joins errors in one line. [Checked] repeats an invalid value's error at later options; the repetition, which
// differs in the line only, is left out.
func join(all, err error) error {
	if all == nil || err == nil {
		return cmp.Or(all, err)
	}
	if cause := errors.Unwrap(err); cause != nil && strings.Contains(all.Error(), cause.Error()) {
		return all
	}
	return fmt.Errorf("%w; %w", all, err)
}

// Alone parses a block without arguments before it.
func Alone(d *caddyfile.Dispenser, of string, known Options) error {
	if d.NextArg() {
		return d.Errf("%s takes no value, got %q: write its options (%s) into a block", of, d.Val(), listed(known))
	}
	return Block(d, of, known)
}

// Guest parses an option into a new struct of its own.
func Guest[T any, P interface {
	*T
	caddyfile.Unmarshaler
}](to **T) Option {
	return func(d *caddyfile.Dispenser) error {
		*to = new(T)
		return P(*to).UnmarshalCaddyfile(d.NewFromNextSegment())
	}
}

// Into parses an option into a struct that is there.
func Into(to caddyfile.Unmarshaler) Option {
	return func(d *caddyfile.Dispenser) error { return to.UnmarshalCaddyfile(d.NewFromNextSegment()) }
}

// OrOff parses a duration that may be off, which is 0.
func OrOff(to **caddy.Duration) Option {
	return func(d *caddyfile.Dispenser) error {
		*to = new(caddy.Duration)
		if d.CountRemainingArgs() == 1 && d.NextArg() {
			if d.Val() == "off" {
				return nil
			}
			d.Prev()
		}
		return Duration(*to)(d)
	}
}

// Once rejects an option that is set already, perhaps in another block.
func Once(is func() bool, parse Option) Option {
	return func(d *caddyfile.Dispenser) error {
		if is() {
			return d.Errf("duplicate option %q", d.Val())
		}
		return parse(d)
	}
}

// Checked parses an option and then validates it, so that errors have the right line. validate must
// not depend on other options, because these may follow.
func Checked(parse Option, validate func() error) Option {
	return func(d *caddyfile.Dispenser) error {
		if err := parse(d); err != nil {
			return err
		}
		if err := validate(); err != nil {
			return d.WrapErr(err)
		}
		return nil
	}
}

// AtLeastOne rejects an option without a value.
func AtLeastOne(parse Option) Option {
	return func(d *caddyfile.Dispenser) error {
		if d.CountRemainingArgs() == 0 {
			return d.ArgErr()
		}
		return parse(d)
	}
}
