#!/usr/bin/env perl
# ok-perl  [benign]
# Tries: nothing hostile: Perl: hashes, patterns, files, pipes, sorting, modules of the core
# Must hold afterwards: works
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
use strict;
use warnings;
use List::Util qw(sum max);
use File::Temp qw(tempfile);
use POSIX qw(floor);
my %count;
$count{$_}++ for "the cat the dog" =~ /(\w+)/g;
die unless $count{the} == 2 && sum(1 .. 10) == 55 && max(3, 9, 2) == 9 && floor(2.7) == 2;
my ($fh, $name) = tempfile(DIR => ".");
print $fh "line $_\n" for 1 .. 5;
close $fh;
open my $in, "<", $name or die;
my @lines = <$in>;
die unless @lines == 5;
my $out = `echo shell`;
die unless $out eq "shell\n";
my $line = <STDIN>;
die unless $line eq "from stdin\n";
print "BENIGN-OK\n";
