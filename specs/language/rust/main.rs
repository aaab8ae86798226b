fn main() {
    println!("rust {}", std::env::args().nth(1).unwrap());
}
