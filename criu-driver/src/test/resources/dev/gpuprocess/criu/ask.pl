# ask.pl DIRECTORY
# Sends what is in each file ask.N that appears there, N = 1, 2, ..., to the socket of its job, and puts what is answered
# into answer.N. A SIGUSR1 to it makes a file own.
use strict;
use IO::Socket::UNIX;

my $directory = shift;
$SIG{USR1} = sub { put('own', "mine\n") };

sub put {
  my ($name, $text) = @_;
  open(my $file, '>', "$directory/half.$name") or die;
  print $file $text;
  close($file) or die;
  rename("$directory/half.$name", "$directory/$name") or die;
}

put('ready', "$ENV{GPUPROCESS_ROOT}\n");
for (my $number = 1;; $number++) {
  select(undef, undef, undef, 0.01) until -e "$directory/ask.$number";
  open(my $file, '<', "$directory/ask.$number") or die;
  my $request = <$file>;
  close($file);
  my $socket = IO::Socket::UNIX->new(Peer => $ENV{GPUPROCESS_SOCKET}) or die;
  print $socket $request;
  put("answer.$number", scalar(<$socket>));
}
