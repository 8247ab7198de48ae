// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package option

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Word parses one word.
func Word[T ~string](to *T) Option {
	return func(d *caddyfile.Dispenser) error {
		var s string
		if d.CountRemainingArgs() == 0 {
			return noValue(d)
		}
		if !d.AllArgs(&s) {
			return d.ArgErr()
		}
		if s == "" {
			return noValue(d)
		}
		*to = T(s)
		return nil
	}
}

// noValue refuses an option without a value. Caddy puts the values of variables in before it parses.
func noValue(d *caddyfile.Dispenser) error {
	return d.Errf("wrong argument count or unexpected line ending after '%s'; an unset {$VARIABLE} is no value", d.Val())
}

// Number parses a whole number.
func Number(to **int) Option {
	return Parsed(func(s string) (err error) {
		var n int
		n, err = strconv.Atoi(s)
		*to = &n
		return err
	}, "a whole number")
}

// Fraction parses a finite number.
func Fraction(to **float64) Option {
	return Parsed(func(s string) (err error) {
		var f float64
		// JSON has no infinity.
		if f, err = strconv.ParseFloat(s, 64); math.IsInf(f, 0) {
			err = strconv.ErrRange
		}
		*to = &f
		return err
	}, "a number")
}

// Percent parses a share above zero, as a percentage such as 2%.
func Percent(to *float64) Option {
	return Parsed(func(s string) error {
		number, ok := strings.CutSuffix(s, "%")
		f, err := strconv.ParseFloat(number, 64)
		if !ok || !(f > 0 && f <= 100) {
			err = strconv.ErrRange
		}
		*to = f / 100
		return err
	}, "a percentage above zero, such as 2%")
}

// Duration parses a duration above zero. Zero means absent in JSON.
func Duration(to *caddy.Duration) Option {
	return Parsed(func(s string) error {
		t, err := caddy.ParseDuration(s)
		if err == nil && t <= 0 {
			err = strconv.ErrRange
		}
		*to = caddy.Duration(t)
		return err
	}, "a duration above zero, such as 90s, 10m or 3h")
}

// bareSize is the smallest size without a unit that counts as bytes.
const bareSize = 1024

// Size parses a size in bytes above zero, as in 10MiB.
func Size(to *int64) Option {
	parse := Parsed(func(s string) error {
		n, err := humanize.ParseBytes(s)
		if err == nil && n == 0 {
			err = strconv.ErrRange
		}
		// ParseBytes returns an unsigned number.
		*to = int64(min(n, math.MaxInt64))
		return err
	}, "a size above zero, such as 640MiB")
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		if err := parse(d); err != nil {
			return err
		}
		// The unit was probably forgotten.
		if n, err := strconv.Atoi(d.Val()); err == nil && n < bareSize {
			return d.Errf("%s: %d bytes are too few for anything; did you mean %[2]dMiB?", name, n)
		}
		return nil
	}
}

// OnOff parses on or off.
func OnOff(to **bool) Option {
	return Parsed(func(s string) error {
		on := s == "on"
		*to = &on
		if !on && s != "off" {
			return strconv.ErrSyntax
		}
		return nil
	}, "on or off")
}

// Flag parses an option without a value.
func Flag(to *bool) Option {
	return func(d *caddyfile.Dispenser) error {
		if d.NextArg() {
			return d.ArgErr()
		}
		*to = true
		return nil
	}
}

// Parsed parses the single value of an option.
func Parsed(parse func(string) error, what string) Option {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		args := d.RemainingArgs()
		if len(args) == 0 {
			return noValue(d)
		}
		// Several words are more often a mistake in the value, such as 640 MB, than too many values.
		s := strings.Join(args, " ")
		if len(args) > 1 {
			if joined := strings.Join(args, ""); parse(joined) == nil {
				what += fmt.Sprintf("; did you mean %s?", joined)
			}
			return d.Errf("%s: %q is not %s", name, s, what)
		}
		if parse(s) != nil {
			return d.Errf("%s: %q is not %s", name, s, what)
		}
		return nil
	}
}

// Above parses a number above zero. Zero means absent in JSON.
func Above[T int | float64](parse func(**T) Option, to *T) Option {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		var value *T
		if err := parse(&value)(d); err != nil {
			return err
		}
		if *value == 0 {
			return d.Errf("%s: 0 is not above zero", name)
		}
		*to = *value
		return nil
	}
}

// Count parses a number of at least one.
func Count(to *int) Option {
	return func(d *caddyfile.Dispenser) error {
		var n *int
		name := d.Val()
		if err := Number(&n)(d); err != nil {
			return err
		}
		if *n < 1 {
			return d.Errf("%s: %d is below 1", name, *n)
		}
		*to = *n
		return nil
	}
}

// Names parses a list of words, which may be empty.
func Names(to *[]string) Option {
	return func(d *caddyfile.Dispenser) error {
		*to = append([]string{}, d.RemainingArgs()...)
		return nil
	}
}
